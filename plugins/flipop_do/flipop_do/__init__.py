"""DigitalOcean for flipop."""

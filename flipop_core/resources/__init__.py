"""The custom resources: types, parsing, status and schema."""

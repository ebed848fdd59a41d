"""Benchmarks of the controller as it is shipped, and of its parts.

``python -m benchmarks --list`` says what there is. A scenario starts what it needs (etcd, kube-apiserver, an HTTP
DigitalOcean, `flipop run`, each a process of its own on loopback) and stops it. Moments of different processes are
compared on CLOCK_MONOTONIC, which all processes of one machine share.
"""

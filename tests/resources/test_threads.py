"""Objects of different kinds are decoded by several threads from the first one on, which must not end the process."""

from __future__ import annotations

import subprocess
import sys

ROUNDS = 200
SCRIPT = f"""
import importlib, sys, threading
from flipop_core.resources import parse, routed, types

sys.setswitchinterval(1e-6)
condition = b'{{"type":"Ready","status":"True","reason":"X","message":"y","lastTransitionTime":"2026-01-01T00:00:00Z"}}'
status = b'{{"conditions":[' + condition + b']}}'
body = b'{{"metadata":{{"name":"x"}},"spec":{{"match":{{"nodeLabel":"a"}}}},"status":' + status + b'}}'
for _ in range({ROUNDS}):
    for module in (types, routed, parse):
        importlib.reload(module)  # all types are new, as in a process that has just begun
    decoders = [parse.decode_pool, parse.decode_record_set, parse.decode_routed_ip, parse.decode_issuer]
    together = threading.Barrier(len(decoders))

    def decode(decoder):
        together.wait()
        decoder(body)

    threads = [threading.Thread(target=decode, args=(decoder,)) for decoder in decoders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_the_first_objects_of_all_kinds_are_decoded_at_the_same_time() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False, timeout=120.0)
    assert (done.returncode, done.stderr) == (0, "")

"""Serve the folder of the page by https at home, with a certificate made on the spot.

    python examples/phone/learn/serve.py [--folder FOLDER] [--port 8443]

Browsers give the motion sensor to pages from https only. Nobody vouches for this certificate, so the
phone warns before it opens the page; its fingerprint is printed, to compare. It needs the program
`openssl`.
"""

from __future__ import annotations

import argparse
import hashlib
import http.server
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
DAYS = 7


def own_address() -> str:
    """The address of this computer at home; no packet is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def certify(host: str, folder: Path) -> ssl.SSLContext:
    """A context with a new certificate for this host."""
    if shutil.which("openssl") is None:
        sys.exit("openssl is not here: install it, or put the folder on any web space with https")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", str(DAYS)]
    names = ["-subj", f"/CN={host}", "-addext", f"subjectAltName=IP:{host}"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    done = subprocess.run([*command, *names, *files], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"openssl made no certificate: {done.stderr.strip().splitlines()[-1]}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    shown = hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate.read_text())).hexdigest()
    print("SHA-256 of the certificate:", shown, flush=True)
    return context


def serve(folder: Path, host: str, port: int) -> None:
    """Serve a folder until Ctrl-C."""
    if not (folder / "index.html").is_file():
        sys.exit(f"{folder} has no page: run `python {HERE / 'make.py'}` first")
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with (
        tempfile.TemporaryDirectory() as scratch,
        http.server.ThreadingHTTPServer((host, port), handler) as server,
    ):
        context = certify(host, Path(scratch))
        server.socket = context.wrap_socket(server.socket, server_side=True)
        print(f"https://{host}:{server.server_port}/", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=HERE / "build")
    parser.add_argument("--host", default=own_address(), help="the address to listen on")
    parser.add_argument("--port", type=int, default=8443)
    options = parser.parse_args()
    serve(options.folder, options.host, options.port)

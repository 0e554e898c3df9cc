"""The shipped proxy on the loopback interface: `stack/proxy/weir.conf` with other ports, addresses and files."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path
from types import TracebackType

import httpx

CHECKOUT = Path(__file__).resolve().parents[2]
#: The name in the shipped configuration, which stays.
NAME = "weir.example.org"


class Nginx:
    """A running nginx in `folder`; a context manager. Ports are those of HTTP, the dashboards and the store."""

    def __init__(self, folder: Path, ports: tuple[int, int, int], superset: int, store: int, key: str) -> None:
        self.http, self.pages, self.store = ports
        self.folder, self.authority = folder, folder / "certificate.pem"
        text = (CHECKOUT / "stack/proxy/weir.conf").read_text()
        replaced = {
            r"listen \[::\]:.*\n": "",
            r"listen 80 ": f"listen {self.http} ",
            r"listen 443 ": f"listen {self.pages} ",
            r"listen 8443 ": f"listen {self.store} ",
            r"listen ": "listen 127.0.0.1:",
            r"127\.0\.0\.1:8088": f"127.0.0.1:{superset}",
            r"127\.0\.0\.1:8123": f"127.0.0.1:{store}",
            r"/etc/nginx/weir/": f"{folder}/",
            r"/var/log/nginx/": f"{folder}/",
        }
        for pattern, wanted in replaced.items():
            text, count = re.subn(pattern, wanted, text)
            assert count, pattern
        (folder / "weir.conf").write_text(text)
        (folder / "proxy-key.conf").write_text(f'proxy_set_header X-Weir-Proxy "{key}";\n')
        temporary = "".join(
            f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        # As root, nginx would become another user, who may not enter the folder.
        user = "user root;" if os.getuid() == 0 else ""
        main = f"{user}\npid {folder}/pid;\nerror_log {folder}/error.log;\nworker_processes 1;\nevents {{}}\n"
        (folder / "nginx.conf").write_text(
            f"{main}http {{\naccess_log off;\n{temporary}include {folder}/weir.conf;\n}}\n"
        )
        names = f"subjectAltName=DNS:{NAME},IP:127.0.0.1"
        made = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={NAME} -addext {names}"
        made += f" -keyout {folder}/key.pem -out {self.authority}"
        subprocess.run(made.split(), check=True, capture_output=True)

    def __enter__(self) -> Nginx:
        words = ["nginx", "-p", str(self.folder), "-c", str(self.folder / "nginx.conf"), "-g", "daemon off;"]
        self.process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        for _ in range(100):
            try:
                httpx.get(f"http://127.0.0.1:{self.http}/", timeout=5)
                return self
            except httpx.HTTPError:
                time.sleep(0.1)
        self.process.terminate()
        raise AssertionError(f"nginx does not answer: {self.process.communicate()[1]}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.terminate()
        self.process.communicate(timeout=30)

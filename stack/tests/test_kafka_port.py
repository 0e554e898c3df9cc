"""Whether the port of the probes takes connections."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from threading import Thread

from weir.authority import issue
from weir.certificates import Certificates
from weir.kafka import takes_probes


def test_a_port_that_takes_probes_answers_with_the_certificate(tmp_path: Path) -> None:
    made, others = Certificates(tmp_path / "tls"), Certificates(tmp_path / "others")
    for each in (made, others):
        issue(each, ["localhost"])
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not takes_probes("0.0.0.0", port, made.authority)  # nobody answers
        shown = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        shown.load_cert_chain(made.of("broker"))
        Thread(target=answer, args=(server, shown), daemon=True).start()
        assert takes_probes("0.0.0.0", port, made.authority)
        assert not takes_probes("127.0.0.1", port, others.authority)
    assert not takes_probes("127.0.0.1", 1, made.authority)  # nothing listens


def answer(server: socket.socket, shown: ssl.SSLContext) -> None:
    """Take each connection, by TLS."""
    while True:
        try:
            shown.wrap_socket(server.accept()[0], server_side=True).close()
        except ssl.SSLError:
            continue
        except OSError:
            return

"""Files of the certificates that Kafka and its clients on this machine present; `weir.authority` makes them.

`secrets/tls` holds `ca.pem`, which probes receive, `ca.key`, and for each part one file with its key and certificate.
An operator may put files of another authority there: `weir` never replaces a file whose authority's key it lacks.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

#: Parts with a certificate of their own. Its common name is `weir.<part>`: no probe's name has a point in it.
PARTS = ("broker", "command", "jobs")


@dataclass(frozen=True)
class Certificates:
    """Files of certificates in `folder`."""

    folder: Path

    @property
    def authority(self) -> Path:
        """The authority's certificate, for those who verify the others."""
        return self.folder / "ca.pem"

    def of(self, part: str) -> Path:
        """Key (PKCS #8) and certificate of a part, in PEM."""
        return self.folder / f"{part}.pem"

"""Files of the certificates that Kafka and its clients on this machine present; `weir.authority` makes them.

`secrets/tls` holds `ca.pem`, which probes receive, `ca.key`, and for each part one file with its key and certificate.
An operator may put files of another authority there: `weir` checks a file whose authority's key it lacks, and never
replaces it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

#: Parts with a certificate of their own. Its common name is `weir.<part>`: no probe's name has a point in it.
PARTS = ("broker", "command", "jobs")


@dataclass(frozen=True)
class Certificates:
    """Files of certificates in `folder`."""

    AUTHORITY: ClassVar[str] = "ca.pem"

    folder: Path

    @property
    def authority(self) -> Path:
        """The authority's certificate, for those who verify the others."""
        return self.folder / self.AUTHORITY

    @property
    def earlier(self) -> Path:
        """The authority's certificate before it was renewed, which probes may still trust alone."""
        return self.folder / "ca-before.pem"

    @property
    def key(self) -> Path:
        """The authority's key."""
        return self.folder / "ca.key"

    def of(self, part: str) -> Path:
        """Key (PKCS #8) and certificate of a part, in PEM."""
        return self.folder / f"{part}.pem"

"""An authority, and what it has signed, as files."""

import trustme


class Certificates:
    """The certificates of a server and of a client, and who vouches for them."""

    def __init__(self, folder):
        authority = trustme.CA()
        self.authority = str(folder / "authority.pem")
        authority.cert_pem.write_to_path(self.authority)
        #: One that has signed nothing.
        self.other_authority = str(folder / "other.pem")
        trustme.CA().cert_pem.write_to_path(self.other_authority)
        self.server = self._issue(authority, folder / "server", "127.0.0.1")
        self.client = self._issue(authority, folder / "client", "me@example.org")

    def _issue(self, authority, path, name):
        issued = authority.issue_cert(name, "localhost")
        certificate, key = f"{path}.pem", f"{path}.key"
        issued.cert_chain_pems[0].write_to_path(certificate)
        issued.private_key_pem.write_to_path(key)
        return certificate, key

"""The accounting of an instance of Slurm: the files and commands of slurmdbd and of a MariaDB of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("slurmdbd", "sacctmgr", "mariadbd", "mysql_install_db", "mariadb")
_NAME = "slurm_acct"


@dataclass(frozen=True, slots=True)
class Accounting:
    """Both servers in the folder of an instance."""

    folder: Path
    host: str
    munge_socket: Path
    database_port: int
    daemon_port: int

    @property
    def installation(self) -> list[str]:
        """The command that makes an empty database."""
        return ["mysql_install_db", self._defaults, "--auth-root-authentication-method=normal"]

    @property
    def database(self) -> list[str]:
        """The command of the database."""
        return ["mariadbd", self._defaults]

    @property
    def preparation(self) -> list[str]:
        """The command that lets slurmdbd into the database, once that answers."""
        made = [f"create database if not exists {_NAME}"]
        for host in ("127.0.0.1", "localhost"):
            made.append(f"create user if not exists slurm@'{host}' identified by 'slurm'")
            made.append(f"grant all on {_NAME}.* to slurm@'{host}'")
        return ["mariadb", f"--socket={self.folder}/mysql.socket", "-uroot", "-e", "; ".join(made)]

    @property
    def _defaults(self) -> str:
        return f"--defaults-file={self.folder}/my.cnf"

    def settings(self) -> dict[str, str]:
        """The settings of slurm.conf with which the controller finds slurmdbd."""
        return {
            "AccountingStorageType": "accounting_storage/slurmdbd",
            "AccountingStorageHost": "127.0.0.1",
            "AccountingStoragePort": str(self.daemon_port),
            "AccountingStoragePass": str(self.munge_socket),
        }

    def write(self) -> None:
        """Writes the configuration of both servers."""
        (self.folder / "my.cnf").write_text(
            f"[mysqld]\ndatadir={self.folder}/mysql\nsocket={self.folder}/mysql.socket\n"
            f"pid-file={self.folder}/mysql.pid\nport={self.database_port}\nbind-address=127.0.0.1\n"
            "skip-log-bin\nuser=root\n"
        )
        settings = {
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={self.munge_socket}",
            "DbdHost": self.host,  # it starts by no other name
            "DbdAddr": "127.0.0.1",
            "DbdPort": str(self.daemon_port),
            "SlurmUser": "root",
            "LogFile": f"{self.folder}/slurmdbd.log",
            "PidFile": f"{self.folder}/slurmdbd.pid",
            "StorageType": "accounting_storage/mysql",
            "StorageHost": "127.0.0.1",
            "StoragePort": str(self.database_port),
            "StorageUser": "slurm",
            "StoragePass": "slurm",
            "StorageLoc": _NAME,
        }
        path = self.folder / "slurmdbd.conf"
        path.touch(mode=0o600)  # it refuses others
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

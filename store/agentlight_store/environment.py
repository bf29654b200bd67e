"""One LMDB environment shared by many processes: opening, forking, growing, and LMDB's errors in our words."""

from __future__ import annotations

import _thread
import errno
import os
import weakref

import lmdb

from agentlight_store.errors import StoreError, StoreFull, StoreMissing, StoreVersionError

# Versions of the format, newest first. Another version is refused with both numbers.
# 1: one database, LMDB's unnamed one; keys as documented in store.py, the first byte tells the kind.
VERSION = 1
VERSION_KEY = b"agentlight-store"
KINDS = EVENTS, HEADERS, TOKENS, LISTS, REWARDS, SPANS = b"e", b"h", b"i", b"m", b"r", b"s"
INITIAL_MAP = 16 << 30  # bytes of address space; the file is sparse and grows only with what is written
SMALL_MAP = 1 << 30  # where the address space is limited (ulimit -v, small containers)
MAX_READERS = 1024
NETWORK_FILESYSTEMS = (
    "nfs",
    "cifs",
    "smb",
    "fuse.sshfs",
    "9p",
    "lustre",
    "ceph",
    "glusterfs",
    "beegfs",
    "afs",
)

TYPE_CHECKING = False  # the launcher opens the store before it starts the agent: `typing` can wait
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Result = TypeVar("Result")

_open_environments: weakref.WeakValueDictionary[str, Environment] = weakref.WeakValueDictionary()
_opening = _thread.RLock()


class Environment:
    """The process's one handle on the store at `path` (LMDB forbids a second). Use `Environment.at`."""

    def __init__(self, path: str, *, create: bool) -> None:
        self.path = path
        # One lock around every transaction: growing the map needs that none is open in this process. `_thread`
        # and not `threading`: nothing for gevent to patch, nothing imported before the agent imports it.
        self.lock = _thread.RLock()
        self.busy = False  # a transaction of the thread that has the lock is open
        self.postponed: list[tuple[Callable[[], Callable[[Any], Any]], Callable[[], object] | None]] = []
        self._handles = 0
        self._open(create)

    @staticmethod
    def at(path: str | os.PathLike[str], *, create: bool = False) -> Environment:
        """The environment of that path; each call of this method asks for one call of `close`."""
        real = os.path.realpath(path)
        with _opening:  # of two threads that come at once, one opens
            known = _open_environments.get(real)
            if known is None:
                known = _open_environments[real] = Environment(real, create=create)
            known._handles += 1
            return known

    def write(self, action: Callable[[Any], Result]) -> Result | None:
        """Run `action(txn)` in one write transaction and commit; grows the map when it is full.

        Called from within a transaction of the same thread it returns None and runs the action right after that
        transaction: so it is with a stream that the garbage collector finalises, and with signal handlers.
        """
        return self.write_prepared(lambda: action)

    def write_prepared(
        self, prepare: Callable[[], Callable[[Any], Result]], failed: Callable[[], object] | None = None
    ) -> Result | None:
        """As `write`, with what `prepare` returns: it runs before the transaction, for which all other processes wait.

        Threads of this process prepare one at a time, in the order in which they write; before the next one does,
        `failed` runs when the transaction was not committed.
        """
        with self.lock:
            if self.busy:
                self.postponed.append((prepare, failed))
                return None
            try:
                return self._run(prepare, failed, write=True)
            finally:
                while self.postponed:
                    self._run(*self.postponed.pop(0), write=True)

    def read(self, action: Callable[[Any], Result]) -> Result:
        """Run `action(txn)` in one read transaction."""
        with self.lock:
            if self.busy:
                with self._env.begin() as txn:
                    return action(txn)
            return self._run(lambda: action, None, write=False)

    def close(self) -> None:
        """Give up one handle; the last one closes the environment."""
        with _opening:
            self._handles -= 1
            if self._handles > 0:
                return
            with self.lock:
                self._env.close()
            _open_environments.pop(self.path, None)

    def _run(
        self, prepare: Callable[[], Callable[[Any], Result]], failed: Callable[[], object] | None, *, write: bool
    ) -> Result:
        self.busy = True
        try:
            return self._transact(prepare(), write=write)
        except BaseException:
            if failed is not None:
                failed()
            raise
        finally:
            self.busy = False

    def _transact(self, action: Callable[[Any], Result], *, write: bool) -> Result:
        if self._pid != os.getpid():
            # The inherited handle is unusable after fork, and LMDB refuses a second open while it is there.
            self._env.close()
            self._open(create=False)
        for _ in range(64):
            try:
                with self._env.begin(write=write) as txn:
                    return action(txn)
            except lmdb.MapFullError:
                self._grow()
            except lmdb.MapResizedError:
                self._env.set_mapsize(0)  # another process grew it: adopt
            except lmdb.ReadersFullError:
                if not self._env.reader_check():
                    raise StoreError(f"{self.path}: all {MAX_READERS} reader slots are in use") from None
            except lmdb.Error as error:
                raise self._translated(error) from error
        raise StoreFull(f"{self.path}: the map could not be grown to what one write needs")

    def _grow(self) -> None:
        size = self._env.info()["map_size"] * 2
        try:
            self._env.set_mapsize(size)
        except (lmdb.Error, MemoryError) as error:
            raise StoreFull(f"{self.path}: cannot grow the map to {size >> 30} GiB ({error})") from error

    def _open(self, create: bool) -> None:
        if create:
            self._make_directory()
        elif not os.path.exists(os.path.join(self.path, "data.mdb")):
            raise StoreMissing(
                f"no store at {self.path} (it has no data.mdb); was `agentlight-run` given another --store?"
            )
        filesystem = filesystem_of(self.path)
        if filesystem.startswith(NETWORK_FILESYSTEMS):
            raise StoreError(
                f"{self.path} is on a network file system ({filesystem}), where LMDB loses data; "
                "give --store a local folder"
            )
        writable = os.access(self.path, os.W_OK) and (create or os.access(os.path.join(self.path, "data.mdb"), os.W_OK))
        try:
            self._env = self._lmdb_open(INITIAL_MAP, writable)
        except (MemoryError, lmdb.MemoryError):
            self._env = self._lmdb_open(SMALL_MAP, writable)
        except lmdb.Error as error:
            raise self._translated(error) from error
        self._pid = os.getpid()
        self._env.reader_check()  # slots of killed readers would stop page reuse
        for _ in range(64):
            try:
                self._check_version(create)
                return
            except lmdb.MapResizedError:
                self._env.set_mapsize(0)  # another process grew it in this moment: adopt
            except lmdb.MapFullError:
                self._grow()
            except lmdb.Error as error:
                raise self._translated(error) from error
        raise StoreFull(f"{self.path}: the map could not be grown to what opening needs")

    def _lmdb_open(self, map_size: int, writable: bool) -> Any:
        durable = os.environ.get("AGENTLIGHT_DURABILITY") == "os"
        return lmdb.open(
            self.path,
            map_size=map_size,
            max_readers=MAX_READERS,
            max_spare_txns=0,  # a spare read transaction would be inherited by a fork
            mode=0o600,
            readonly=not writable,
            lock=writable,
            sync=durable,
            metasync=durable,
        )

    def _make_directory(self) -> None:
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"cannot create the store {self.path}: {error.strerror}; choose another --store"
            ) from error
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise StoreError(f"the store {self.path} is not writable; choose another --store")

    def _check_version(self, create: bool) -> None:
        with self._env.begin(write=create) as txn:
            # Another program's environment is not made ours: only an empty one gets a version.
            if create and self._env.stat()["entries"] == 0:
                txn.put(VERSION_KEY, str(VERSION).encode())
                # Each kind begins on a page of its own: what grows at the end of a page fills it, what grows
                # before other keys leaves halves. Two of the large values fit on a page; the small ones stay there.
                for value in (bytes(2000), b""):
                    for kind in KINDS:
                        txn.put(kind, value)
            found = txn.get(VERSION_KEY)
        if found is None:
            raise StoreVersionError(f"{self.path} is an LMDB environment, but no agentlight store")
        if found != str(VERSION).encode():
            raise StoreVersionError(
                f"{self.path} has format version {found.decode()}, this agentlight reads version {VERSION}; "
                "use the agentlight that wrote it, or collect again"
            )

    def _translated(self, error: lmdb.Error) -> StoreError:
        if isinstance(error, lmdb.DiskError) or os.strerror(errno.ENOSPC) in str(error):
            return StoreFull(f"{self.path}: the disk is full or failing ({error})")
        if isinstance(error, (lmdb.InvalidError, lmdb.CorruptedError, lmdb.VersionMismatchError)):
            return StoreError(f"{self.path} is not a readable store ({error})")
        return StoreError(f"{self.path}: {error}")


def filesystem_of(path: str) -> str:
    """The type of the file system that holds `path` ("ext4", "nfs4", ...), "" where the system does not tell."""
    best, kind = "", ""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
            for line in mounts:
                _, point, name, *_ = line.split(" ")
                inside = path == point or path.startswith(point.rstrip("/") + "/")
                if inside and len(point) >= len(best):
                    best, kind = point, name
    except OSError:
        return ""
    return kind


# At a fork no other thread may be in a transaction: in the child it would never end, and LMDB's `close` waits for it.
# Each lock is waited for, but not for ever: an agent is never held up by a store that hangs.
FORK_WAIT = 10.0  # seconds
_held_at_fork: list[Any] = []


def _before_fork() -> None:
    for lock in [_opening, *(environment.lock for environment in list(_open_environments.values()))]:
        if lock.acquire(timeout=FORK_WAIT):
            _held_at_fork.append(lock)


def _after_fork_in_parent() -> None:
    while _held_at_fork:
        _held_at_fork.pop().release()


def _after_fork_in_child() -> None:
    global _opening
    _held_at_fork.clear()
    _opening = _thread.RLock()
    for environment in list(_open_environments.values()):
        environment.lock, environment.busy, environment.postponed = _thread.RLock(), False, []


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)

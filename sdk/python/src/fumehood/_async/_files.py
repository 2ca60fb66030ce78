"""Files of a living sandbox."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from fumehood._async import _io
from fumehood._errors import InvalidRequest, NotFound
from fumehood._models._sandboxes import FileInfo, FileList
from fumehood._wire import local_name, sandbox_path

if TYPE_CHECKING:
    from fumehood._async._transport import AsyncTransport

Listing = list[FileInfo]

MOST = 10_000  # files of one listing
DEEPEST = 256  # levels of one listing


class AsyncFiles:
    """The files of a sandbox. A path is absolute, or relative to /workspace."""

    def __init__(self, transport: AsyncTransport, sandbox: str) -> None:
        self._transport = transport
        self._path = sandbox_path(sandbox, "files")
        self._sandbox = sandbox

    async def read(self, path: str) -> bytes:
        """Return the content of a file."""
        async with self._transport.stream("GET", self._path, params={"path": path}) as response:
            await self._refuse_folder(path, response.headers.get("content-type", ""))
            return await response.aread()

    async def read_text(self, path: str, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the content of a text file."""
        return (await self.read(path)).decode(encoding, errors)

    async def write(self, path: str, data: str | bytes | BinaryIO, *, mode: int | None = None) -> None:
        """Write a file, whole or not at all. Missing folders are created, and an existing file is replaced.

        mode has the permission bits, by default 0o644.
        """
        content = data.encode() if isinstance(data, str) else data if isinstance(data, bytes) else _io.pieces(data)
        query = {"path": path} if mode is None else {"path": path, "mode": f"{mode:04o}"}
        await self._transport.json("PUT", self._path, params=query, content=content)

    async def list(self, path: str = ".", *, depth: int = 1) -> Listing:
        """List a folder to a depth. Paths are relative to the folder. At most 10,000 files are listed."""
        return (await self._list(path, depth)).files

    async def stat(self, path: str) -> FileInfo:
        """Describe a file or a folder. It raises NotFound if there is none."""
        return await self._transport.ask(FileInfo, "GET", self._path, params={"path": path, "stat": "1"})

    async def exists(self, path: str) -> bool:
        """Report whether there is a file or a folder."""
        try:
            await self.stat(path)
        except NotFound:
            return False
        return True

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, an empty folder, or with recursive a folder and its content."""
        query = {"path": path, "recursive": "1"} if recursive else {"path": path}
        await self._transport.json("DELETE", self._path, params=query)

    async def move(self, source: str, target: str, *, replace: bool = False) -> None:
        """Move a file or a folder. replace allows to replace an existing file."""
        body = {"from": source, "to": target, "replace": replace}
        await self._transport.json("POST", sandbox_path(self._sandbox, "move"), json=body)

    async def mkdir(self, path: str) -> None:
        """Create a folder and its missing parents."""
        await self._transport.json("POST", sandbox_path(self._sandbox, "mkdir"), json={"path": path})

    async def clean(self, *, force: bool = False) -> None:
        """Remove everything in the workspace. One that is a directory of the host needs force."""
        await self._transport.json("POST", sandbox_path(self._sandbox, "clean"), json={"force": force})

    async def upload(self, local: str | os.PathLike[str], path: str | None = None) -> None:
        """Copy a local file or folder into the sandbox; path is the copy, by default of the same name.

        Symbolic links below a folder are left out.
        """
        source = Path(local)
        target = PurePosixPath(path or source.resolve().name)
        if not source.is_dir():
            await self._upload_file(source, target)
            return
        await self.mkdir(str(target))
        for folder, _, names in os.walk(source):
            for name in names:
                file = Path(folder, name)
                if file.is_file() and not file.is_symlink():
                    await self._upload_file(file, target / file.relative_to(source).as_posix())

    async def _upload_file(self, source: Path, target: PurePosixPath) -> None:
        with source.open("rb") as file:
            await self.write(str(target), file, mode=os.fstat(file.fileno()).st_mode & 0o777)

    async def download(self, path: str, local: str | os.PathLike[str]) -> None:
        """Copy a file or a folder of the sandbox to a local path. Symbolic links are left out.

        The content is that of hostile code.
        """
        target = Path(local)
        if (await self.stat(path)).type != "folder":
            await self._download_file(path, target)
            return
        listing = await self._list(path, DEEPEST)
        if listing.more:
            raise InvalidRequest(f"{path}: it has more than {MOST} files", "download its folders one by one")
        target.mkdir(parents=True, exist_ok=True)
        for info in listing.files:
            inside = local_name(info.path)
            if info.type == "folder" and len(inside.parts) == DEEPEST:
                await self.download(str(PurePosixPath(path) / inside), target / inside)
            elif info.type == "folder":
                (target / inside).mkdir(parents=True, exist_ok=True)
            elif info.type == "file":
                await self._download_file(str(PurePosixPath(path) / inside), target / inside)

    async def _download_file(self, path: str, target: Path) -> None:
        async with self._transport.stream("GET", self._path, params={"path": path}) as response:
            with target.open("wb") as file:
                async for piece in response.aiter_raw():
                    file.write(piece)

    async def pack(self, path: str, file: BinaryIO) -> None:
        """Write a folder of the sandbox to a file as a tar, whose content is that of hostile code.

        It has files, folders, and symbolic links that stay inside of the folder.
        """
        query = {"path": path, "archive": "tar"}
        async with self._transport.stream("GET", self._path, params=query) as response:
            async for piece in response.aiter_raw():
                file.write(piece)

    async def unpack(self, path: str, data: bytes | BinaryIO) -> None:
        """Unpack a tar into a folder of the sandbox."""
        content = data if isinstance(data, bytes) else _io.pieces(data)
        query = {"path": path, "archive": "tar"}
        await self._transport.json("PUT", self._path, params=query, content=content)

    async def _list(self, path: str, depth: int) -> FileList:
        query = {"path": path, "list": "1", "depth": depth, "limit": MOST}
        return await self._transport.ask(FileList, "GET", self._path, params=query)

    async def _refuse_folder(self, path: str, media: str) -> None:
        if media.startswith("application/json"):  # the answer is a listing
            raise InvalidRequest(f"{path}: it is a folder", "list it with files.list")

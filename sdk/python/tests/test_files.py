from __future__ import annotations

import io
from pathlib import PurePosixPath, PureWindowsPath

import pytest

from fumehood import AlreadyExists, FumehoodError, InvalidRequest, NotFound
from fumehood._wire import local_name


def test_files(sandbox):
    files = sandbox.files
    files.write("a/b/é ?#%.txt", "é", mode=0o755)
    assert files.read_text("a/b/é ?#%.txt") == "é"
    files.write("stream", io.BytesIO(b"x" * 200_000))
    assert files.read("stream") == b"x" * 200_000
    info = files.stat("a/b/é ?#%.txt")
    assert (info.type, info.mode, info.size) == ("file", "0755", 2)
    assert sorted(f.path for f in files.list()) == ["a", "stream"]
    assert sorted(f.path for f in files.list("a", depth=2)) == ["b", "b/é ?#%.txt"]
    files.move("stream", "moved")
    assert (files.exists("stream"), files.exists("moved")) == (False, True)
    with pytest.raises(AlreadyExists):
        files.move("moved", "a")
    files.mkdir("c/d")
    with pytest.raises(InvalidRequest, match="it is a folder"):
        files.read("c")
    files.remove("c/d")
    files.remove("a", recursive=True)
    with pytest.raises(NotFound):
        files.stat("a")
    assert sandbox.run("open('moved').read(1)").text == "'x'"


def test_folders(sandbox, tmp_path):
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "run.sh").write_text("echo hello")
    (source / "run.sh").chmod(0o755)
    (source / "sub" / "data").write_bytes(b"\xff")
    (source / "link").symlink_to("/etc/passwd")
    sandbox.files.upload(source)
    sandbox.files.upload(source / "run.sh", "again.sh")
    assert sandbox.exec("source/run.sh; ls source again.sh").stdout == "hello\nagain.sh\n\nsource:\nrun.sh\nsub\n"
    sandbox.exec("mkdir source/empty; ln -s /etc/passwd source/out; mkfifo source/pipe")
    sandbox.files.download("source", tmp_path / "copy")
    found = sorted(str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*"))
    assert found == ["empty", "run.sh", "sub", "sub/data"]
    assert (tmp_path / "copy" / "sub" / "data").read_bytes() == b"\xff"
    sandbox.files.download("again.sh", tmp_path / "one.sh")
    assert (tmp_path / "one.sh").read_text() == "echo hello"


def test_names_of_downloads():
    for name in ("../a", "a/../../b", "/a"):
        with pytest.raises(FumehoodError):
            local_name(name, PurePosixPath)
    for name in ("..\\a", "a/..\\..\\b", "a\\b", "\\a", "C:\\a", "C:a", "C:", "\\\\host\\share\\a", "../a", "/a"):
        with pytest.raises(FumehoodError):
            local_name(name, PureWindowsPath)
    assert str(local_name("..\\a", PurePosixPath)) == "..\\a"
    assert str(local_name("a/b.txt", PureWindowsPath)) == "a/b.txt"


def test_deep_folders(sandbox, tmp_path):
    sandbox.exec("mkdir -p d" + "/d" * 300 + " && echo x > d" + "/d" * 300 + "/f")
    sandbox.files.download("d", tmp_path / "copy")
    assert (tmp_path / ("copy" + "/d" * 300) / "f").read_text() == "x\n"

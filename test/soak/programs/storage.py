# Temporary files, a database, archives, memory maps, locks, links and watching a tree.
import fcntl, mmap, os, shutil, sqlite3, sys, tempfile, zipfile

n = int(sys.argv[1])
with tempfile.TemporaryDirectory() as d:
    for i in range(50):
        os.makedirs(f"{d}/{i % 7}", exist_ok=True)
        with open(f"{d}/{i % 7}/{i}", "w") as f:
            f.write("x" * (i + n))
    print(sum(os.path.getsize(os.path.join(p, f)) for p, _, fs in os.walk(d) for f in fs))
    with zipfile.ZipFile("tree.zip", "w", zipfile.ZIP_DEFLATED) as z:
        for p, _, fs in os.walk(d):
            for f in fs:
                z.write(os.path.join(p, f), f)
    print(len(zipfile.ZipFile("tree.zip").namelist()))
db = sqlite3.connect("d.sqlite")
db.execute("pragma journal_mode=wal")
db.execute("create table t(a int)")
with db:
    db.executemany("insert into t values(?)", [(i * n,) for i in range(100)])
print(db.execute("select sum(a) from t").fetchone())
with open("m", "w+b") as f:
    f.truncate(1 << 20)
    with mmap.mmap(f.fileno(), 0) as m:
        m[4096:4099] = b"abc"
    f.seek(4096)
    print(f.read(3))
    fcntl.flock(f, fcntl.LOCK_EX)
os.symlink("m", "l")
os.link("m", "h")
print(os.readlink("l"), os.stat("h").st_nlink)
shutil.rmtree("no-such", ignore_errors=True)
os.rename("h", "r")
print([f for f in ("h", "l", "m", "r", "tree.zip") if os.path.lexists(f)])

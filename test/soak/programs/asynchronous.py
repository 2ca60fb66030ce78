# Tasks, a queue, a child process, and a server with clients on loopback, all in one event loop.
import asyncio, sys

n = int(sys.argv[1])

async def serve(reader, writer):
    line = await reader.readline()
    writer.write(b"%d\n" % (int(line) * n))
    await writer.drain()
    writer.close()

async def ask(port, value):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"%d\n" % value)
    answer = int(await reader.readline())
    writer.close()
    await writer.wait_closed()
    return answer

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        print(sum(await asyncio.gather(*(ask(port, i) for i in range(20)))))
    child = await asyncio.create_subprocess_exec("cat", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    out, _ = await child.communicate(b"through cat %d" % n)
    print(out.decode(), child.returncode)
    q = asyncio.Queue(3)
    async def produce():
        for i in range(50):
            await q.put(i)
        await q.put(None)
    task, seen = asyncio.create_task(produce()), 0
    while (item := await q.get()) is not None:
        seen += item
        await asyncio.sleep(0)
    await task
    print(seen)

asyncio.run(main())

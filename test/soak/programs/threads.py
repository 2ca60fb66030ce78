# Threads that share a queue and a lock, and a pool of them.
import sys, threading, queue
from concurrent.futures import ThreadPoolExecutor

n = int(sys.argv[1])
work, total, lock = queue.Queue(), [0], threading.Lock()

def worker():
    while (item := work.get()) is not None:
        with lock:
            total[0] += item * n

threads = [threading.Thread(target=worker) for _ in range(8)]
for t in threads:
    t.start()
for i in range(1000):
    work.put(i)
for _ in threads:
    work.put(None)
for t in threads:
    t.join()
with ThreadPoolExecutor(16) as pool:
    squares = sum(pool.map(lambda x: x * x, range(n + 100)))
print(total[0], squares)

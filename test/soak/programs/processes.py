# A pool of processes, shared memory, and pipes between them: semaphores and /dev/shm must work.
import sys
from multiprocessing import Pool, Process, Queue, Value, shared_memory

def square(x):
    return x * x

def fill(name, n, q, counter):
    block = shared_memory.SharedMemory(name)
    block.buf[:4] = bytes([n, n + 1, n + 2, n + 3])
    block.close()
    with counter.get_lock():
        counter.value += n
    q.put("filled")

if __name__ == "__main__":
    n = int(sys.argv[1])
    with Pool(4) as pool:
        print(sum(pool.map(square, range(200 + n), chunksize=10)))
    block = shared_memory.SharedMemory(create=True, size=4096)
    q, counter = Queue(), Value("i", 1)
    p = Process(target=fill, args=(block.name, n, q, counter))
    p.start()
    print(q.get(timeout=20))
    p.join()
    print(list(block.buf[:4]), counter.value, p.exitcode)
    block.close()
    block.unlink()

"""Allocates memory until none is left."""

hoard = []
while True:
    hoard.append(bytearray(32 << 20))
    print(f"holding {32 * len(hoard)} MiB", flush=True)

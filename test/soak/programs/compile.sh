# Compile a C program with threads and run it.
set -e
cat >p.c <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static long sums[4];
static void *work(void *arg) {
	long k = (long)arg;
	for (long i = k; i < 100000; i += 4) sums[k] += i;
	return 0;
}
int main(int argc, char **argv) {
	pthread_t t[4];
	for (long k = 0; k < 4; k++) if (pthread_create(&t[k], 0, work, (void *)k)) return 2;
	for (int k = 0; k < 4; k++) pthread_join(t[k], 0);
	printf("%ld\n", (sums[0] + sums[1] + sums[2] + sums[3]) * atol(argv[argc - 1]));
}
END
gcc -O1 -pthread -o p p.c
./p "$1"

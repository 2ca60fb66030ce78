// Floor measures what isolation alone costs: for each byte on standard input it makes one sandbox, forks a process of
// a thousand pages into it, which changes 300 of them, and ends both. Then it prints 42. It has the namespaces, control
// groups, mounts, capabilities and filter of a sandbox of Fumehood, and no server, guest or interpreter.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 1000, COPIED = 300, RULES = 120, GROUPS = 4 };

static const int inside = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
static char root[] = "/tmp/fumehood-floor-XXXXXX", *heap;
static char groups[GROUPS][128];
static int tasks[GROUPS], grouped;

static void must(int ok, const char *step) {
	if (ok) return;
	fprintf(stderr, "floor: %s: %s\n", step, strerror(errno));
	_exit(1);
}

static void put(const char *path, const char *text) { // files that some kernels lack are passed over
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0) return;
	if (write(fd, text, strlen(text)) < 0) errno = 0;
	close(fd);
}

static void join(void) {
	for (int i = 0; i < grouped; i++) must(write(tasks[i], "0", 1) == 1, "join a control group");
}

static void confine(void) {
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct none[2] = {{0}};
	struct sock_filter f[2 * RULES + 2];
	int n = 0;
	for (int c = 0; c < 41; c++) prctl(PR_CAPBSET_DROP, c, 0, 0, 0);
	must(syscall(SYS_capset, &header, none) == 0, "drop capabilities");
	f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (int i = 0; i < RULES; i++) {
		f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 600 + i, 0, 1);
		f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	}
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = {n, f};
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
	must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "filter");
}

static void build(void) {
	const char *dirs[] = {"proc", "usr", "etc", "w", "tmp", "dev"};
	const char *masked[] = {"acpi", "bus", "fs", "irq", "sysvipc", "tty", "scsi", "asound"};
	char path[64];
	must(mount("t", root, "tmpfs", 0, "size=1m") == 0 && chdir(root) == 0, "mount the root");
	for (int i = 0; i < 6; i++) must(mkdir(dirs[i], 0755) == 0, "mkdir");
	must(mount("/usr", "usr", 0, MS_BIND, 0) == 0 && mount("/etc", "etc", 0, MS_BIND, 0) == 0, "bind");
	must(mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "hidepid=invisible") == 0, "mount /proc");
	must(mount("t", "w", "tmpfs", 0, "size=10m") == 0 && mkdir("w/a", 0755) == 0, "mount the workspace");
	must(mount("w/a", "tmp", 0, MS_BIND, 0) == 0, "bind /tmp");
	must(mount("d", "dev", "devpts", 0, "newinstance,ptmxmode=0666") == 0, "mount devpts");
	for (int i = 0; i < 8; i++) {
		snprintf(path, sizeof path, "proc/%s", masked[i]);
		if (access(path, F_OK) == 0) must(mount("w/a", path, 0, MS_BIND, 0) == 0, "mask");
	}
	put("proc/sys/user/max_user_namespaces", "0");
	put("proc/sys/user/max_inotify_instances", "8");
	put("proc/sys/user/max_inotify_watches", "8192");
	must(syscall(SYS_pivot_root, ".", ".") == 0 && umount2(".", MNT_DETACH) == 0 && chdir("/") == 0, "pivot");
	must(mount("", "/", 0, MS_REMOUNT | MS_BIND | MS_RDONLY, 0) == 0, "seal the root");
	must(sethostname("box", 3) == 0, "sethostname");
}

static int first(void *pair) { // pid 1 of the sandbox
	int fd = ((int *)pair)[1], s;
	struct ifreq lo = {.ifr_flags = IFF_UP | IFF_RUNNING};
	char b;
	close(((int *)pair)[0]);
	join();
	must(read(fd, &b, 1) == 1, "wait for the ids");
	build();
	strcpy(lo.ifr_name, "lo");
	s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	must(ioctl(s, SIOCSIFFLAGS, &lo) == 0, "raise lo");
	close(s);
	confine();
	must(write(fd, "r", 1) == 1, "report");
	if (read(fd, &b, 1) < 0) _exit(1);
	_exit(0);
}

static void fork_into(int sandbox, int out) {
	must(setns(sandbox, CLONE_NEWPID) == 0, "join the pid namespace");
	pid_t child = fork();
	must(child >= 0, "fork");
	if (child == 0) {
		join();
		must(setns(sandbox, CLONE_NEWUSER) == 0 && setns(sandbox, inside) == 0, "join the namespaces");
		must(setresgid(1000, 1000, 1000) == 0 && setresuid(1000, 1000, 1000) == 0, "become the user");
		confine();
		for (int i = 0; i < COPIED; i++) heap[i * PAGE] = 3;
		_exit(write(out, "42\n", 3) == 3 ? 0 : 1);
	}
	int status;
	must(waitpid(child, &status, 0) == child && status == 0, "run");
}

static void once(int home) {
	static char stack[65536];
	int pair[2], sandbox, status;
	char path[64], b;
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
	must(setns(home, CLONE_NEWPID) == 0, "leave the pid namespace");
	int flags = inside | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWCGROUP | CLONE_PIDFD | SIGCHLD;
	pid_t child = clone(first, stack + sizeof stack, flags, pair, &sandbox);
	must(child > 0, "clone");
	close(pair[1]);
	snprintf(path, sizeof path, "/proc/%d/uid_map", child);
	put(path, "0 0 1\n1000 100000 1\n");
	snprintf(path, sizeof path, "/proc/%d/gid_map", child);
	put(path, "0 0 1\n1000 100000 1\n");
	must(write(pair[0], "g", 1) == 1 && read(pair[0], &b, 1) == 1, "await the sandbox");
	fork_into(sandbox, 1);
	close(pair[0]);
	must(waitpid(child, &status, 0) == child, "await the end");
	close(sandbox);
}

int main(void) {
	const char *controllers[GROUPS] = {"memory", "pids", "cpu", "cpuacct"}; // of v1; without them, no groups
	char b, path[160];
	for (int i = 0; i < GROUPS; i++) {
		snprintf(groups[grouped], sizeof groups[0], "/sys/fs/cgroup/%s/fumehood-floor-%d", controllers[i], getpid());
		if (mkdir(groups[grouped], 0755) != 0) continue;
		snprintf(path, sizeof path, "%s/tasks", groups[grouped]);
		tasks[grouped] = open(path, O_WRONLY | O_CLOEXEC);
		must(tasks[grouped] >= 0, path);
		grouped++;
	}
	must(mkdtemp(root) != NULL, "mkdtemp");
	heap = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(heap != MAP_FAILED, "mmap");
	memset(heap, 1, PAGES * PAGE);
	int home = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
	while (read(0, &b, 1) == 1) once(home);
	for (int i = 0; i < grouped; i++) rmdir(groups[i]);
	rmdir(root);
	return 0;
}

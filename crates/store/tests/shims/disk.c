/* A disk that fails on command, for tests: loaded into a child process with LD_PRELOAD.
 *
 * While the file named by SHIM_FSYNC_FAILS exists, syncs of files whose name ends with SHIM_SUFFIX fail with EIO.
 * While the file named by SHIM_DISK_FULL exists, writes to such files fail with ENOSPC.
 * Everything else passes through.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int is_meant(int fd) {
    const char *suffix = getenv("SHIM_SUFFIX");
    char link[64], path[PATH_MAX];
    ssize_t length;
    if (!suffix) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path);
    if (length < (ssize_t)strlen(suffix)) return 0;
    return memcmp(path + length - strlen(suffix), suffix, strlen(suffix)) == 0;
}

static int fails(const char *variable, int fd) {
    const char *trigger = getenv(variable);
    int before = errno, result = trigger && access(trigger, F_OK) == 0 && is_meant(fd);
    errno = before;
    return result;
}

#define PASS_ON(name, type) static type real; if (!real) real = (type)dlsym(RTLD_NEXT, #name)

typedef int (*sync_call)(int);
typedef ssize_t (*write_call)(int, const void *, size_t);
typedef ssize_t (*pwrite_call)(int, const void *, size_t, off_t);
typedef ssize_t (*pwrite64_call)(int, const void *, size_t, off64_t);

int fsync(int fd) {
    PASS_ON(fsync, sync_call);
    if (fails("SHIM_FSYNC_FAILS", fd)) { errno = EIO; return -1; }
    return real(fd);
}

int fdatasync(int fd) {
    PASS_ON(fdatasync, sync_call);
    if (fails("SHIM_FSYNC_FAILS", fd)) { errno = EIO; return -1; }
    return real(fd);
}

ssize_t write(int fd, const void *bytes, size_t length) {
    PASS_ON(write, write_call);
    if (fails("SHIM_DISK_FULL", fd)) { errno = ENOSPC; return -1; }
    return real(fd, bytes, length);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) {
    PASS_ON(pwrite, pwrite_call);
    if (fails("SHIM_DISK_FULL", fd)) { errno = ENOSPC; return -1; }
    return real(fd, bytes, length, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at) {
    PASS_ON(pwrite64, pwrite64_call);
    if (fails("SHIM_DISK_FULL", fd)) { errno = ENOSPC; return -1; }
    return real(fd, bytes, length, at);
}

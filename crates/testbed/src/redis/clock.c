/* A time of day that is set by a test: loaded into a server with LD_PRELOAD.
 *
 * The file named by TESTBED_CLOCK holds a number of 8 bytes: microseconds since 1970, at which the time of day stands
 * still. Zero: the system's own. Clocks that only run forward are left alone.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *clock_file;

__attribute__((constructor)) static void open_clock(void) {
    const char *path = getenv("TESTBED_CLOCK");
    int file = path ? open(path, O_RDONLY) : -1;
    void *memory;
    if (file < 0) return;
    memory = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (memory != MAP_FAILED) clock_file = memory;
    close(file);
}

int clock_gettime(clockid_t id, struct timespec *time) {
    int64_t micros = clock_file && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) ? *clock_file : 0;
    if (micros == 0) return (int)syscall(SYS_clock_gettime, id, time);
    time->tv_sec = micros / 1000000;
    time->tv_nsec = micros % 1000000 * 1000;
    return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *told) {
    struct timespec now = {0, 0};
    clock_gettime(CLOCK_REALTIME, &now);
    if (told) *told = now.tv_sec;
    return now.tv_sec;
}

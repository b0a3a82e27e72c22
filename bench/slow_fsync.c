/* A disk that takes 2 ms more for each flush: cc -shared -fPIC slow_fsync.c -o slow_fsync.so, then LD_PRELOAD it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

static int later(const char *name, int descriptor)
{
    struct timespec delay = {0, 2000000};
    int (*own)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    nanosleep(&delay, 0);
    return own(descriptor);
}

int fsync(int descriptor) { return later("fsync", descriptor); }
int fdatasync(int descriptor) { return later("fdatasync", descriptor); }

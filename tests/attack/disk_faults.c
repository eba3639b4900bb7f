/* Preloaded: counts the calls that change files below one directory, over all processes forked
 * from the one that armed it, and lets the N-th fail. `error` 0 kills the process before the call,
 * -1 stops it, for the call to go on when it is woken; another is what the call answers, once. Each
 * call is logged: its number, name and path. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static char root[PATH_MAX];
static int log_file = -1, failing;
static long fatal;
static _Atomic long* count;

#define REAL(name) \
  static __typeof__(name)* real; \
  if (!real) real = (__typeof__(name)*)dlsym(RTLD_NEXT, #name)

int disk_faults_arm(const char* directory, const char* log, long at, int error) {
  snprintf(root, sizeof root, "%s", directory);
  log_file = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  log_file = fcntl(log_file, F_DUPFD_CLOEXEC, 5000);
  count = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  atomic_store(count, 0);
  fatal = at;
  failing = error;
  return log_file;
}

static int below(const char* path) {
  size_t size = strlen(root);
  return !strncmp(path, root, size) && (!path[size] || path[size] == '/');
}

static void full_path(int directory, const char* path, char* to) {
  char base[PATH_MAX] = "";
  if (path[0] != '/') {
    if (directory == AT_FDCWD) {
      if (!getcwd(base, sizeof base)) base[0] = 0;
    } else {
      char link[64];
      snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
      ssize_t size = readlink(link, base, sizeof base - 1);
      base[size < 0 ? 0 : size] = 0;
    }
    strncat(base, "/", sizeof base - strlen(base) - 1);
  }
  snprintf(to, PATH_MAX, "%.2047s%.2047s", base, path);
}

/* Whether this call is to fail. */
static int strike(const char* name, const char* path) {
  int before = errno;
  long number = atomic_fetch_add(count, 1) + 1;
  char line[PATH_MAX + 64];
  int size = snprintf(line, sizeof line, "%ld %s %s\n", number, name, path + strlen(root));
  if (syscall(SYS_write, log_file, line, (size_t)size)) {}
  errno = before;
  if (number != fatal) return 0;
  if (!failing) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }
  if (failing < 0) {
    kill(getpid(), SIGSTOP);
    errno = before;
    return 0;
  }
  errno = failing;
  return 1;
}

static int strike_at(const char* name, int directory, const char* path) {
  if (!count) return 0;
  char whole[PATH_MAX];
  full_path(directory, path, whole);
  return below(whole) && strike(name, whole);
}

static int strike_file(const char* name, int file) {
  if (!count) return 0;
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t size = readlink(link, path, sizeof path - 1);
  if (size < 0) return 0;
  path[size] = 0;
  return below(path) && strike(name, path);
}

static int makes(int directory, const char* path, int flags) {
  if (!(flags & (O_CREAT | O_TRUNC))) return 0;
  /* Opening a file that is there, without cutting it short, changes nothing. */
  return (flags & O_TRUNC) || faccessat(directory, path, F_OK, AT_SYMLINK_NOFOLLOW);
}

#define MODE(flags) \
  mode_t mode = 0; \
  if ((flags) & (O_CREAT | O_TMPFILE)) { \
    va_list rest; \
    va_start(rest, flags); \
    mode = va_arg(rest, mode_t); \
    va_end(rest); \
  }

#define OPEN(name) \
  int name(const char* path, int flags, ...) { \
    REAL(name); \
    MODE(flags) \
    if (count && makes(AT_FDCWD, path, flags) && strike_at("open", AT_FDCWD, path)) return -1; \
    return real(path, flags, mode); \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
  int name(int directory, const char* path, int flags, ...) { \
    REAL(name); \
    MODE(flags) \
    if (count && makes(directory, path, flags) && strike_at("open", directory, path)) return -1; \
    return real(directory, path, flags, mode); \
  }
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int file, const void* from, size_t size) {
  REAL(write);
  return strike_file("write", file) ? -1 : real(file, from, size);
}

ssize_t pwrite(int file, const void* from, size_t size, off_t at) {
  REAL(pwrite);
  return strike_file("pwrite", file) ? -1 : real(file, from, size, at);
}

ssize_t pwrite64(int file, const void* from, size_t size, off64_t at) {
  REAL(pwrite64);
  return strike_file("pwrite", file) ? -1 : real(file, from, size, at);
}

int ftruncate(int file, off_t size) {
  REAL(ftruncate);
  return strike_file("ftruncate", file) ? -1 : real(file, size);
}

int ftruncate64(int file, off64_t size) {
  REAL(ftruncate64);
  return strike_file("ftruncate", file) ? -1 : real(file, size);
}

int fsync(int file) {
  REAL(fsync);
  return strike_file("fsync", file) ? -1 : real(file);
}

int rename(const char* from, const char* to) {
  REAL(rename);
  return strike_at("rename", AT_FDCWD, to) ? -1 : real(from, to);
}

int renameat(int of, const char* from, int in, const char* to) {
  REAL(renameat);
  return strike_at("rename", in, to) ? -1 : real(of, from, in, to);
}

int link(const char* from, const char* to) {
  REAL(link);
  return strike_at("link", AT_FDCWD, to) ? -1 : real(from, to);
}

int linkat(int of, const char* from, int in, const char* to, int flags) {
  REAL(linkat);
  return strike_at("link", in, to) ? -1 : real(of, from, in, to, flags);
}

int unlink(const char* path) {
  REAL(unlink);
  return strike_at("unlink", AT_FDCWD, path) ? -1 : real(path);
}

int unlinkat(int directory, const char* path, int flags) {
  REAL(unlinkat);
  return strike_at(flags & AT_REMOVEDIR ? "rmdir" : "unlink", directory, path) ? -1 : real(directory, path, flags);
}

int mkdir(const char* path, mode_t mode) {
  REAL(mkdir);
  return strike_at("mkdir", AT_FDCWD, path) ? -1 : real(path, mode);
}

int rmdir(const char* path) {
  REAL(rmdir);
  return strike_at("rmdir", AT_FDCWD, path) ? -1 : real(path);
}

/* The team of threads that shares a pass: one posts it in as many parts as there are cores. It takes the first itself, helpers the last; a part whose
 * helper does not come is taken by whoever is free.
 *
 * What a part holds must not depend on who takes it. */
#pragma once
#include <fenv.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPIN_NS 2000000 /* how long a helper without work stays awake: longer than what is between two passes, or between two calls of a learner */

typedef void (*Work)(const void* pass, int64_t part);

static struct {
  Work work;
  const void* pass;
  int64_t parts;
  fenv_t fp_environment; /* of the thread that posted: XLA flushes denormals to zero, and so must the helpers */
  int helpers;
  atomic_flag busy; /* somebody's pass is posted; whoever else comes meanwhile works alone */
  _Alignas(64) atomic_uint serial; /* odd while a pass is open */
  _Alignas(64) atomic_llong taken; /* parts: whoever posted takes the first, helpers the last, so that each finds in its cache what it made */
  atomic_llong helped;             /* of these by helpers */
  _Alignas(64) atomic_int inside;  /* helpers who may look at the pass */
  atomic_int asleep;
} team = {.busy = ATOMIC_FLAG_INIT};

static void cpu_relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

static int64_t nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int claim_part(void) { return atomic_fetch_add(&team.taken, 1) < team.parts; }

/* Wait for an open pass other than this one; return its serial. Spin first, then sleep on a futex. */
static unsigned wait_for_pass(unsigned than) {
  int64_t until = nanoseconds() + SPIN_NS;
  for (int spins = 0;; spins++) {
    unsigned seen = atomic_load(&team.serial);
    if (seen % 2 && seen != than) return seen;
    cpu_relax();
    if (spins % 64 == 63 && nanoseconds() > until) {
      atomic_fetch_add(&team.asleep, 1); /* before the kernel compares the serial: who posts after that sees it, and wakes */
      syscall(SYS_futex, &team.serial, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
      atomic_fetch_sub(&team.asleep, 1);
      until = nanoseconds() + SPIN_NS;
    }
  }
}

static void* helper_main(void* nothing) {
  (void)nothing;
  for (unsigned seen = 0;;) {
    seen = wait_for_pass(seen);
    atomic_fetch_add(&team.inside, 1);
    if (atomic_load(&team.serial) == seen) { /* still open, and so it stays till all are outside */
      fesetenv(&team.fp_environment);
      while (claim_part()) team.work(team.pass, team.parts - 1 - atomic_fetch_add(&team.helped, 1));
    }
    atomic_fetch_sub(&team.inside, 1);
  }
  return NULL;
}

static void share(Work work, const void* pass, int64_t parts) {
  if (!team.helpers || parts < 2 || atomic_flag_test_and_set(&team.busy)) {
    for (int64_t part = 0; part < parts; part++) work(pass, part);
    return;
  }
  team.work = work;
  team.pass = pass;
  team.parts = parts;
  fegetenv(&team.fp_environment);
  atomic_store(&team.taken, 0);
  atomic_store(&team.helped, 0);
  atomic_fetch_add(&team.serial, 1);
  if (atomic_load(&team.asleep)) syscall(SYS_futex, &team.serial, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
  for (int64_t part = 0; claim_part(); part++) work(pass, part);
  atomic_fetch_add(&team.serial, 1);
  for (int spins = 0; atomic_load(&team.inside); spins++) spins < 10000 ? cpu_relax() : (void)sched_yield();
  atomic_flag_clear(&team.busy);
}

/* Reset the team in a forked process, which has no helpers: threads stay behind. */
static void forget_helpers_after_fork(void) {
  team.helpers = 0;
  atomic_store(&team.serial, 0);
  atomic_store(&team.asleep, 0);
  atomic_store(&team.inside, 0);
  atomic_flag_clear(&team.busy);
}

/* Start a helper on each of these cores. Return 0 where all could be started. */
int dualac_start_helpers(const int* cores, int count) {
  static atomic_flag registered = ATOMIC_FLAG_INIT;
  if (count && !atomic_flag_test_and_set(&registered)) pthread_atfork(NULL, NULL, forget_helpers_after_fork);
  for (int i = 0; i < count; i++) {
    pthread_t thread;
    pthread_attr_t attributes;
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(cores[i], &core);
    pthread_attr_init(&attributes);
    pthread_attr_setaffinity_np(&attributes, sizeof core, &core);
    int failed = pthread_create(&thread, &attributes, helper_main, NULL);
    pthread_attr_destroy(&attributes);
    if (failed) return failed;
    pthread_detach(thread);
    team.helpers++;
  }
  return 0;
}

int dualac_helpers(void) { return team.helpers; }

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

#define AWAKE_NS 2000000 /* how long a helper without work stays awake: longer than what is between two passes, or between two calls of a learner */

typedef void (*Work)(const void* pass, int64_t part);

static struct {
  Work work;
  const void* pass;
  int64_t parts;
  fenv_t manner; /* in which whoever posted computes: XLA takes the smallest numbers for zero, and so must its helpers */
  int helpers;
  atomic_flag busy; /* somebody's pass is posted; whoever else comes meanwhile works alone */
  _Alignas(64) atomic_uint serial; /* odd while a pass is open */
  _Alignas(64) atomic_llong taken; /* parts: whoever posted takes the first, helpers the last, so that each finds in its cache what it made */
  atomic_llong helped;             /* of these by helpers */
  _Alignas(64) atomic_int inside;  /* helpers who may look at the pass */
  atomic_int asleep;
} team = {.busy = ATOMIC_FLAG_INIT};

static void breathe(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

static int64_t nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int left(void) { return atomic_fetch_add(&team.taken, 1) < team.parts; }

/* The serial of an open pass other than this one. */
static unsigned another_pass(unsigned than) {
  int64_t until = nanoseconds() + AWAKE_NS;
  for (int looks = 0;; looks++) {
    unsigned seen = atomic_load(&team.serial);
    if (seen % 2 && seen != than) return seen;
    breathe();
    if (looks % 64 == 63 && nanoseconds() > until) {
      atomic_fetch_add(&team.asleep, 1); /* before the kernel compares the serial: who posts after that sees it, and wakes */
      syscall(SYS_futex, &team.serial, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
      atomic_fetch_sub(&team.asleep, 1);
      until = nanoseconds() + AWAKE_NS;
    }
  }
}

static void* help(void* nothing) {
  (void)nothing;
  for (unsigned seen = 0;;) {
    seen = another_pass(seen);
    atomic_fetch_add(&team.inside, 1);
    if (atomic_load(&team.serial) == seen) { /* still open, and so it stays till all are outside */
      fesetenv(&team.manner);
      while (left()) team.work(team.pass, team.parts - 1 - atomic_fetch_add(&team.helped, 1));
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
  fegetenv(&team.manner);
  atomic_store(&team.taken, 0);
  atomic_store(&team.helped, 0);
  atomic_fetch_add(&team.serial, 1);
  if (atomic_load(&team.asleep)) syscall(SYS_futex, &team.serial, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
  for (int64_t part = 0; left(); part++) work(pass, part);
  atomic_fetch_add(&team.serial, 1);
  for (int looks = 0; atomic_load(&team.inside); looks++) looks < 10000 ? breathe() : (void)sched_yield();
  atomic_flag_clear(&team.busy);
}

/* A forked process has no helpers: threads stay behind. */
static void be_alone(void) {
  team.helpers = 0;
  atomic_store(&team.serial, 0);
  atomic_store(&team.asleep, 0);
  atomic_store(&team.inside, 0);
  atomic_flag_clear(&team.busy);
}

/* A helper more for each of these cores. 0 where all could be had. */
int dualac_start_helpers(const int* cores, int count) {
  static atomic_flag asked = ATOMIC_FLAG_INIT;
  if (count && !atomic_flag_test_and_set(&asked)) pthread_atfork(NULL, NULL, be_alone);
  for (int i = 0; i < count; i++) {
    pthread_t thread;
    pthread_attr_t seat;
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(cores[i], &core);
    pthread_attr_init(&seat);
    pthread_attr_setaffinity_np(&seat, sizeof core, &core);
    int failed = pthread_create(&thread, &seat, help, NULL);
    pthread_attr_destroy(&seat);
    if (failed) return failed;
    pthread_detach(thread);
    team.helpers++;
  }
  return 0;
}

int dualac_helpers(void) { return team.helpers; }

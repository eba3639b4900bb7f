/* Layers of small networks, and the steps of their optimisers, by all cores of a run.
 *
 * A layer is one pass: its product with bias and ReLU, or with the ReLU's slope, while the sums are still in registers. A team of threads takes the
 * tiles of a pass as they come to them, so that a core which is slow for a while does fewer of them. Every number is one thread's work, added up in
 * an order that depends on the sizes alone: how many threads there are changes no bit. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "xla/ffi/api/c_api.h"

#if defined(__AVX512F__)
#define LANES 16
#define BLOCK 10 /* rows of a product whose sums are in registers at a time: 20 of 32, two of each row */
#elif defined(__AVX__)
#define LANES 8
#define BLOCK 6 /* 12 of 16 */
#else
#define LANES 4
#define BLOCK 6
#endif
#define PANEL (2 * LANES)
#define NEAR 512          /* numbers that rows may be apart to be read where they are */
#define PIECE 128         /* rows of a panel that are worth laying it out for */
#define ALONE 200000      /* operations that are sooner done than shared */
#define CHUNK 8192        /* parameters that an optimiser moves at a time */
#define AWAKE_NS 2000000  /* how long a helper without work stays awake: longer than what is between two passes, or between two calls of a learner */

typedef float Vector __attribute__((vector_size(4 * LANES)));
typedef int Lanes __attribute__((vector_size(4 * LANES)));
typedef float Loose __attribute__((vector_size(4 * LANES), aligned(4))); /* the same anywhere in memory */

/* ---- the team: a pass is posted, and taken tile by tile by whoever is free ---- */

typedef void (*Work)(const void* pass, int64_t tile);

static struct {
  Work work;
  const void* pass;
  int64_t tiles;
  int helpers;
  atomic_flag busy; /* somebody's pass is posted; whoever else comes meanwhile works alone */
  _Alignas(64) atomic_uint serial; /* odd while a pass is open */
  _Alignas(64) atomic_llong taken; /* tiles: whoever posted takes the first, helpers the last, so that each finds in its cache what it made */
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

static int left(void) { return atomic_fetch_add(&team.taken, 1) < team.tiles; }

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
    if (atomic_load(&team.serial) == seen) /* still open, and so it stays till all are outside */
      while (left()) team.work(team.pass, team.tiles - 1 - atomic_fetch_add(&team.helped, 1));
    atomic_fetch_sub(&team.inside, 1);
  }
  return NULL;
}

static void share(Work work, const void* pass, int64_t tiles) {
  if (!team.helpers || tiles < 2 || atomic_flag_test_and_set(&team.busy)) {
    for (int64_t tile = 0; tile < tiles; tile++) work(pass, tile);
    return;
  }
  team.work = work;
  team.pass = pass;
  team.tiles = tiles;
  atomic_store(&team.taken, 0);
  atomic_store(&team.helped, 0);
  atomic_fetch_add(&team.serial, 1);
  if (atomic_load(&team.asleep)) syscall(SYS_futex, &team.serial, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
  for (int64_t tile = 0; left(); tile++) work(pass, tile);
  atomic_fetch_add(&team.serial, 1);
  for (int looks = 0; atomic_load(&team.inside); looks++) looks < 10000 ? breathe() : (void)sched_yield();
  atomic_flag_clear(&team.busy);
}

/* A helper for each of these cores; once in a process. 0 where all could be had. */
int dualac_gather(const int* cores, int count) {
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

/* ---- products: c[i][j] = sum over k of a[i][k] b[k][j], each matrix wherever its strides say ---- */

typedef struct {
  const float* of;
  int64_t row, column;
} Matrix;

typedef struct {
  int64_t rows, columns, depth;
  Matrix a, b; /* of a either the rows or the columns are contiguous */
  float* c;
  int64_t c_row, c_column;
  const float* bias;  /* added to each row; or NULL */
  int relu;           /* nothing below zero is kept */
  const float* above; /* of c's size: only where this is above zero anything is kept; or NULL */
  float* sums;        /* of the columns of b; or NULL */
} Product;

/* A thread's own place for a panel of b, one row of it behind the other. */
static float* desk(int64_t numbers) {
  static _Thread_local float* place;
  static _Thread_local int64_t size;
  if (size < numbers) {
    free(place);
    place = aligned_alloc(64, (numbers * sizeof(float) + 63) / 64 * 64);
    if (!place) {
      fputs("dualac: out of memory\n", stderr);
      abort();
    }
    size = numbers;
  }
  return place;
}

#if defined(__GNUC__) && !defined(__clang__)
/* LANES x LANES numbers turned over, in as many rounds as LANES has doublings: in each, pairs of rows exchange every other run of numbers. */
static inline __attribute__((always_inline)) void turn(const float* from, int64_t from_row, float* to, int64_t to_row) {
  Vector rows[LANES];
  Lanes lane;
  for (int i = 0; i < LANES; i++) lane[i] = i;
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++) rows[i] = *(const Loose*)(from + i * from_row);
#pragma GCC unroll 4
  for (int run = 1; run < LANES; run *= 2) {
    Lanes theirs = (lane & run) != 0;
    Lanes low = (theirs & ((lane ^ run) + LANES)) | (~theirs & lane), high = (theirs & (lane + LANES)) | (~theirs & (lane ^ run));
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) {
      if (i & run) continue;
      Vector one = rows[i], other = rows[i + run];
      rows[i] = __builtin_shuffle(one, other, low);
      rows[i + run] = __builtin_shuffle(one, other, high);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++) *(Loose*)(to + i * to_row) = rows[i];
}
#else
static void turn(const float* from, int64_t from_row, float* to, int64_t to_row) {
  for (int i = 0; i < LANES; i++)
    for (int j = 0; j < LANES; j++) to[j * to_row + i] = from[i * from_row + j];
}
#endif

/* Columns [0, width) of b from here on, as rows of `wide` numbers, zeros behind what there is. */
static void lay_out(Matrix b, int64_t depth, int64_t width, int64_t wide, float* panel) {
  int64_t whole = b.row == 1 && width == wide ? depth / LANES * LANES : 0;
  for (int64_t k = 0; k < whole; k += LANES)
    for (int64_t j = 0; j < wide; j += LANES) turn(b.of + k + j * b.column, b.column, panel + k * wide + j, wide);
  for (int64_t k = whole; k < depth; k++) {
    const float* row = b.of + k * b.row;
    if (b.column == 1 && width == PANEL) {
      memcpy(panel + k * PANEL, row, sizeof(float) * PANEL);
      continue;
    }
    for (int64_t j = 0; j < wide; j++) panel[k * wide + j] = j < width ? row[j * b.column] : 0.0f;
  }
}

/* A few rows of a product with a panel. */
typedef struct {
  Matrix a;
  const float* panel;
  int64_t panel_row, depth;
  float* c;
  int64_t c_row;
  const float* with; /* the biases, or what must be above zero */
} Block;

enum { PLAIN, RELU, ABOVE }; /* what becomes of the sums */

/* `across`: a's columns are contiguous, not its rows. All that is constant here the compiler knows: it keeps the sums in registers, addresses cost nothing. */
static inline __attribute__((always_inline)) void multiply(int rows, int vectors, int across, int then, const Block* block) {
  Vector sum[BLOCK][2] = {0};
  const float *a = block->a.of, *panel = block->panel;
  const int64_t a_row = block->a.row, a_column = block->a.column, depth = block->depth;
  const int64_t panel_row = block->panel_row;
  for (int64_t k = 0; k < depth; k++) {
    const float* b = panel + k * panel_row;
    Vector first = *(const Loose*)b, second = vectors == 2 ? *(const Loose*)(b + LANES) : first;
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
      float number = across ? a[k * a_column + i] : a[i * a_row + k];
      sum[i][0] += number * first;
      if (vectors == 2) sum[i][1] += number * second;
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
    for (int half = 0; half < vectors; half++) {
      Vector total = sum[i][half], none = {0};
      if (then == RELU) {
        total += *(const Loose*)(block->with + half * LANES);
        total = (Vector)((Lanes)total & ~(total <= none)); /* what is no number stays none */
      }
      if (then == ABOVE) total = (Vector)((Lanes)total & (*(const Loose*)(block->with + i * block->c_row + half * LANES) > none));
      *(Loose*)(block->c + i * block->c_row + half * LANES) = total;
    }
}

/* For each number of rows a program of its own. */
#define ROWS(n, ...) case n: multiply(n, __VA_ARGS__, block); break;
#if BLOCK > 6
#define MORE(...) ROWS(7, __VA_ARGS__) ROWS(8, __VA_ARGS__) ROWS(9, __VA_ARGS__) ROWS(10, __VA_ARGS__)
#else
#define MORE(...)
#endif
#define KIND(name, ...) \
  static __attribute__((noinline)) void name(int rows, const Block* block) { \
    switch (rows) { \
      ROWS(1, __VA_ARGS__) ROWS(2, __VA_ARGS__) ROWS(3, __VA_ARGS__) ROWS(4, __VA_ARGS__) ROWS(5, __VA_ARGS__) ROWS(6, __VA_ARGS__) MORE(__VA_ARGS__) \
    } \
  }
KIND(plain, 2, 0, PLAIN)
KIND(through_relu, 2, 0, RELU)
KIND(where_above, 2, 0, ABOVE)
KIND(plain_across, 2, 1, PLAIN)
KIND(narrow, 1, 0, PLAIN)
KIND(narrow_across, 1, 1, PLAIN)

/* Sums that the blocks do not put down themselves: of a panel that is not full, or turned over. */
static void put_down(const Product* p, int64_t row, int rows, int64_t column, int64_t width, const float* sums) {
  for (int i = 0; i < rows; i++)
    for (int64_t j = 0; j < width; j++) {
      float sum = sums[i * PANEL + j] + (p->bias ? p->bias[column + j] : 0.0f);
      if (p->relu) sum = sum <= 0.0f ? 0.0f : sum;
      if (p->above && !(p->above[(row + i) * p->columns + column + j] > 0.0f)) sum = 0.0f;
      p->c[(row + i) * p->c_row + (column + j) * p->c_column] = sum;
    }
}

static int64_t panels(const Product* p) { return (p->columns + PANEL - 1) / PANEL; }
static int64_t width(const Product* p, int64_t number) { return p->columns - number * PANEL < PANEL ? p->columns - number * PANEL : PANEL; }

static void add_up(const float* panel, int64_t panel_row, int64_t depth, int64_t columns, float* sums) {
  Vector total[2] = {0};
  for (int64_t k = 0; k < depth; k++)
    for (int half = 0; half * LANES < columns; half++) total[half] += *(const Loose*)(panel + k * panel_row + half * LANES);
  memcpy(sums, total, columns * sizeof(float));
}

/* A share of a panel's numbers, called into the cache. */
static void call_for(const Product* p, int64_t number, int64_t share, int64_t shares) {
  if (number >= panels(p)) return;
  int64_t column = number * PANEL, columns = width(p, number);
  if (p->b.column == 1) {
    for (int64_t k = share * p->depth / shares; k < (share + 1) * p->depth / shares; k++)
      for (int64_t j = 0; j < columns; j += 16) __builtin_prefetch(p->b.of + k * p->b.row + column + j);
  } else {
    for (int64_t j = share * columns / shares; j < (share + 1) * columns / shares; j++)
      for (int64_t k = 0; k < p->depth; k += 16) __builtin_prefetch(p->b.of + (column + j) * p->b.column + k);
  }
}

/* The rows from `first` to before `last` of this panel's columns. */
static void multiply_panel(const Product* p, int64_t number, int64_t first, int64_t last, const Product* next) {
  int64_t column = number * PANEL, columns = width(p, number);
  int across = p->a.column != 1, full = columns == PANEL, whole = full && p->c_column == 1 && !p->bias == !p->relu;
  const float* panel = p->b.of + column;
  int64_t panel_row = p->b.row;
  if (!full || p->b.column != 1 || p->b.row > NEAR) {
    panel_row = columns > LANES ? PANEL : LANES;
    float* laid_out = desk(p->depth * PANEL);
    lay_out((Matrix){p->b.of + column * p->b.column, p->b.row, p->b.column}, p->depth, columns, panel_row, laid_out);
    panel = laid_out;
  }
  if (p->sums && !first) add_up(panel, panel_row, p->depth, columns, p->sums + column);
  int64_t blocks = (last - first + BLOCK - 1) / BLOCK; /* as equal as can be */
  for (int64_t i = 0; i < blocks; i++) {
    int64_t row = first + i * (last - first) / blocks;
    int rows = (int)(first + (i + 1) * (last - first) / blocks - row);
    if (!across) number + 1 < panels(p) ? call_for(p, number + 1, i, blocks) : next ? call_for(next, 0, i, blocks) : (void)0;
    _Alignas(64) float sums[BLOCK * PANEL];
    Block block = {{p->a.of + row * p->a.row, p->a.row, p->a.column}, panel, panel_row, p->depth, sums, PANEL, NULL};
    if (whole) {
      block.c = p->c + row * p->c_row + column;
      block.c_row = p->c_row;
      block.with = p->relu ? p->bias + column : p->above ? p->above + row * p->columns + column : NULL;
    }
    if (panel_row == LANES) (across ? narrow_across : narrow)(rows, &block);
    else if (across) plain_across(rows, &block);
    else if (whole && p->relu) through_relu(rows, &block);
    else if (whole && p->above) where_above(rows, &block);
    else plain(rows, &block);
    if (!whole) put_down(p, row, rows, column, columns, sums);
  }
}

/* One output for each row: no panel to multiply with. */
static void multiply_by_one_column(const Product* p, int64_t first, int64_t last) {
  for (int64_t i = first; i < last; i++) {
    const float* a = p->a.of + i * p->a.row;
    Vector sum[4] = {0};
    int64_t k = 0;
    for (; k + 4 * LANES <= p->depth; k += 4 * LANES)
      for (int run = 0; run < 4; run++) sum[run] += *(const Loose*)(a + k + run * LANES) * *(const Loose*)(p->b.of + k + run * LANES);
    Vector all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    float total = 0.0f;
    for (int j = 0; j < LANES; j++) total += all[j];
    for (; k < p->depth; k++) total += a[k] * p->b.of[k];
    put_down(p, i, 1, 0, 1, &total);
  }
}

/* ---- passes through a network: one product after the other, of which each needs of the one before only its own rows; or all products at once ---- */

#define MOST 64 /* layers */

typedef struct {
  int64_t count, parts;
  double first;             /* share of the rows that the first of two parts has */
  int64_t took[2];          /* nanoseconds of each of two */
  const void* by[2];        /* and whose they were */
  Product of[MOST];
} Chain;

/* Two cores are rarely as fast as one another for long, where others have their share of them. The rows are divided as both were lately. */
static _Atomic double first_share = 0.5;
#define SLOWLY 0.1 /* of the way at a time */

static int64_t end_of_part(const Chain* chain, int64_t part, int64_t rows) {
  return chain->parts == 2 && part == 1 ? (int64_t)(chain->first * rows + 0.5) : part * rows / chain->parts;
}

static void multiply_part(const void* pass, int64_t part) {
  Chain* chain = (Chain*)pass;
  int64_t began = nanoseconds();
  for (const Product* p = chain->of; p < chain->of + chain->count; p++) {
    int64_t first = end_of_part(chain, part, p->rows), last = end_of_part(chain, part + 1, p->rows);
    if (p->columns == 1 && p->a.column == 1) multiply_by_one_column(p, first, last);
    else for (int64_t number = 0; number < panels(p); number++) multiply_panel(p, number, first, last, p + 1 < chain->of + chain->count ? p + 1 : NULL);
  }
  static _Thread_local char me;
  if (part < 2) {
    chain->took[part] = nanoseconds() - began;
    chain->by[part] = &me;
  }
}

static void one_after_the_other(Chain* chain) {
  double operations = 0;
  for (const Product* p = chain->of; p < chain->of + chain->count; p++) operations += 2.0 * p->rows * p->columns * p->depth;
  int64_t rows = chain->of->rows;
  chain->parts = operations < ALONE ? 1 : team.helpers + 1;
  if (chain->parts > rows) chain->parts = rows;
  chain->first = first_share;
  share(multiply_part, chain, chain->parts);
  if (chain->parts != 2 || chain->by[0] == chain->by[1] || !chain->took[0] || !chain->took[1]) return;
  double mine = chain->first / chain->took[0], theirs = (1.0 - chain->first) / chain->took[1], wanted = mine / (mine + theirs);
  wanted = wanted < 0.2 ? 0.2 : wanted > 0.8 ? 0.8 : wanted;
  first_share = chain->first + SLOWLY * (wanted - chain->first);
}

/* Of each panel, where there are helpers: so many that nobody waits long for whoever is last. */
static int64_t pieces(const Product* p) { return team.helpers && p->rows >= 2 * PIECE ? p->rows / PIECE : 1; }

static void multiply_piece(const void* pass, int64_t tile) {
  const Chain* chain = pass;
  const Product* p = chain->of;
  for (; tile >= panels(p) * pieces(p); p++) tile -= panels(p) * pieces(p);
  int64_t piece = tile / panels(p);
  multiply_panel(p, tile % panels(p), piece * p->rows / pieces(p), (piece + 1) * p->rows / pieces(p), NULL);
}

static void all_at_once(const Chain* chain) {
  int64_t tiles = 0;
  for (int64_t i = 0; i < chain->count; i++) tiles += panels(chain->of + i) * pieces(chain->of + i);
  share(multiply_piece, chain, tiles);
}

/* ---- what XLA calls ---- */

static const XLA_FFI_Buffer* given(const XLA_FFI_CallFrame* frame, int64_t place) { return frame->args.args[place]; }
static float* result(const XLA_FFI_CallFrame* frame, int64_t place) { return ((XLA_FFI_Buffer*)frame->rets.rets[place])->data; }

static int64_t length(const XLA_FFI_Buffer* buffer) {
  int64_t product = 1;
  for (int64_t axis = 0; axis < buffer->rank; axis++) product *= buffer->dims[axis];
  return product;
}

/* Attributes come in the order of their names. */
static const void* attribute(const XLA_FFI_CallFrame* frame, int place) { return ((const XLA_FFI_Scalar*)frame->attrs.attrs[place])->value; }

/* Whether XLA only asks for which version of its interface this was made. */
static int asked_for_version(const XLA_FFI_CallFrame* frame) {
  XLA_FFI_Extension_Base* asked = frame->extension_start;
  if (!asked || asked->type != XLA_FFI_Extension_Metadata) return 0;
  XLA_FFI_Metadata* told = ((XLA_FFI_Metadata_Extension*)asked)->metadata;
  told->api_version.major_version = XLA_FFI_API_MAJOR;
  told->api_version.minor_version = XLA_FFI_API_MINOR;
  told->traits = 0;
  told->state_type_id.type_id = 0;
  return 1;
}

static XLA_FFI_Error* refuse(const XLA_FFI_CallFrame* frame, const char* why) {
  XLA_FFI_Error_Create_Args args = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, NULL, why, XLA_FFI_Error_Code_INVALID_ARGUMENT};
  return frame->api->XLA_FFI_Error_Create(&args);
}

static XLA_FFI_Error* too_deep(const XLA_FFI_CallFrame* frame) { return refuse(frame, "dualac: a network has at most 64 layers"); }

/* (x, kernel, bias, kernel, bias, ...) -> what each layer makes of what the one before made: a product and a bias, and through a ReLU but for the last. */
XLA_FFI_Error* dualac_forward(XLA_FFI_CallFrame* frame) {
  if (asked_for_version(frame)) return NULL;
  Chain chain = {.count = frame->rets.size};
  if (chain.count > MOST) return too_deep(frame);
  const float* x = given(frame, 0)->data;
  for (int64_t i = 0; i < chain.count; i++) {
    const XLA_FFI_Buffer* kernel = given(frame, 1 + 2 * i);
    int64_t inputs = kernel->dims[0], outputs = kernel->dims[1];
    chain.of[i] = (Product){
        .rows = given(frame, 0)->dims[0], .columns = outputs, .depth = inputs, .a = {x, inputs, 1}, .b = {kernel->data, outputs, 1},
        .c = result(frame, i), .c_row = outputs, .c_column = 1, .bias = given(frame, 2 + 2 * i)->data, .relu = i + 1 < chain.count};
    x = result(frame, i);
  }
  one_after_the_other(&chain);
  return NULL;
}

/* (slope, kernel, x, kernel, x, ...), from the last layer on -> the slopes of what ReLUs made each x of; and of (slope, kernel) that of x itself. */
XLA_FFI_Error* dualac_backward(XLA_FFI_CallFrame* frame) {
  if (asked_for_version(frame)) return NULL;
  Chain chain = {.count = frame->rets.size};
  if (chain.count > MOST) return too_deep(frame);
  const float* slope = given(frame, 0)->data;
  for (int64_t i = 0; i < chain.count; i++) {
    const XLA_FFI_Buffer* kernel = given(frame, 1 + 2 * i);
    int64_t inputs = kernel->dims[0], outputs = kernel->dims[1];
    chain.of[i] = (Product){
        .rows = given(frame, 0)->dims[0], .columns = inputs, .depth = outputs, .a = {slope, outputs, 1}, .b = {kernel->data, 1, outputs},
        .c = result(frame, i), .c_row = inputs, .c_column = 1, .above = frame->args.size > 2 ? given(frame, 2 + 2 * i)->data : NULL};
    slope = result(frame, i);
  }
  one_after_the_other(&chain);
  return NULL;
}

/* (x, ..., slope, ...), one of each a layer -> x' slope, ..., and the sums of each slope's columns: the slopes of kernels and biases. */
XLA_FFI_Error* dualac_weigh(XLA_FFI_CallFrame* frame) {
  if (asked_for_version(frame)) return NULL;
  Chain chain = {.count = frame->args.size / 2};
  if (chain.count > MOST) return too_deep(frame);
  for (int64_t i = 0; i < chain.count; i++) {
    const XLA_FFI_Buffer *x = given(frame, i), *slope = given(frame, chain.count + i);
    int64_t rows = x->dims[0], inputs = x->dims[1], outputs = slope->dims[1];
    float *kernel = result(frame, i), *bias = result(frame, chain.count + i);
    chain.of[i] = (Product){
        .rows = inputs, .columns = outputs, .depth = rows, .a = {x->data, 1, inputs}, .b = {slope->data, outputs, 1},
        .c = kernel, .c_row = outputs, .c_column = 1, .sums = bias};
    if (outputs > LANES) continue;
    /* Few outputs: by the other side, whose panels are full. */
    chain.of[i] = (Product){
        .rows = outputs, .columns = inputs, .depth = rows, .a = {slope->data, 1, outputs}, .b = {x->data, inputs, 1},
        .c = kernel, .c_row = 1, .c_column = outputs};
    memset(bias, 0, outputs * sizeof(float));
    for (int64_t k = 0; k < rows; k++)
      for (int64_t j = 0; j < outputs; j++) bias[j] += ((const float*)slope->data)[k * outputs + j];
  }
  all_at_once(&chain);
  return NULL;
}

/* ---- optimisers: passes over all parameters of a network ---- */

typedef struct {
  const XLA_FFI_CallFrame* frame;
  int64_t first, arrays; /* of the arguments, how many come before the arrays, and how many arrays of each kind there are */
  float b1, b2, step, least, weight;
} Pass;

/* The tile's array and the numbers of it that are meant. */
static int64_t chunk(const Pass* pass, int64_t tile, int64_t* start, int64_t* end) {
  for (int64_t array = 0;; array++) {
    int64_t size = length(given(pass->frame, pass->first + array)), tiles = (size + CHUNK - 1) / CHUNK;
    if (tile < tiles) {
      *start = tile * CHUNK;
      *end = *start + CHUNK < size ? *start + CHUNK : size;
      return array;
    }
    tile -= tiles;
  }
}

static int64_t chunks(const Pass* pass) {
  int64_t tiles = 0;
  for (int64_t array = 0; array < pass->arrays; array++) tiles += (length(given(pass->frame, pass->first + array)) + CHUNK - 1) / CHUNK;
  return tiles;
}

static void descend_chunk(const void* of, int64_t tile) {
  const Pass* pass = of;
  int64_t start, end, n = pass->arrays, array = chunk(pass, tile, &start, &end);
  const XLA_FFI_CallFrame* frame = pass->frame;
  const float *p = given(frame, 2 + array)->data, *m = given(frame, 2 + n + array)->data, *v = given(frame, 2 + 2 * n + array)->data;
  const float* g = given(frame, 2 + 3 * n + array)->data;
  float *new_p = result(frame, array), *new_m = result(frame, n + array), *new_v = result(frame, 2 * n + array);
  const float b1 = pass->b1, b2 = pass->b2, step = pass->step, least = pass->least;
#pragma GCC ivdep
  for (int64_t i = start; i < end; i++) {
    float mean = b1 * m[i] + (1.0f - b1) * g[i], square = b2 * v[i] + (1.0f - b2) * (g[i] * g[i]);
    new_p[i] = p[i] - step * mean / (sqrtf(square) + least);
    new_m[i] = mean;
    new_v[i] = square;
  }
}

/* (step, least, parameters..., means..., squares..., gradients...) -> parameters..., means..., squares... after a step of Adam. */
XLA_FFI_Error* dualac_descend(XLA_FFI_CallFrame* frame) {
  if (asked_for_version(frame)) return NULL;
  Pass pass = {
      .frame = frame, .first = 2, .arrays = (frame->args.size - 2) / 4, .b1 = *(const float*)attribute(frame, 0), .b2 = *(const float*)attribute(frame, 1),
      .step = *(const float*)given(frame, 0)->data, .least = *(const float*)given(frame, 1)->data};
  share(descend_chunk, &pass, chunks(&pass));
  return NULL;
}

static void follow_chunk(const void* of, int64_t tile) {
  const Pass* pass = of;
  int64_t start, end, array = chunk(pass, tile, &start, &end);
  const float *slow = given(pass->frame, array)->data, *fast = given(pass->frame, pass->arrays + array)->data;
  float* moved = result(pass->frame, array);
  const float weight = pass->weight;
#pragma GCC ivdep
  for (int64_t i = start; i < end; i++) moved[i] = (1.0f - weight) * slow[i] + weight * fast[i];
}

/* (slow..., fast...) -> slow... a little closer. */
XLA_FFI_Error* dualac_follow(XLA_FFI_CallFrame* frame) {
  if (asked_for_version(frame)) return NULL;
  Pass pass = {.frame = frame, .arrays = frame->args.size / 2, .weight = *(const float*)attribute(frame, 0)};
  share(follow_chunk, &pass, chunks(&pass));
  return NULL;
}

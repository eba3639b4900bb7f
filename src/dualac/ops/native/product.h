/* Products of matrices: c[i][j] = sum over k of a[i][k] b[k][j], each matrix wherever its strides say.
 *
 * A block of a's rows is multiplied with a panel of b's columns, all sums of it in registers, and bias and ReLU, or a ReLU's slope, are applied
 * before they leave them. Every number is added up in the order of k, whatever block it is in. */
#pragma once
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__AVX512F__)
#define LANES 16
#define BLOCK 10 /* rows whose sums are in registers at a time: 20 of 32, two of each row */
#elif defined(__AVX__)
#define LANES 8
#define BLOCK 6 /* 12 of 16 */
#else
#define LANES 4
#define BLOCK 6
#endif
#define PANEL (2 * LANES)
#define NEAR_ROWS 256 /* largest row stride at which b is read without packing */

typedef float Vector __attribute__((vector_size(4 * LANES)));
typedef int Lanes __attribute__((vector_size(4 * LANES)));
typedef float Loose __attribute__((vector_size(4 * LANES), aligned(4))); /* the same anywhere in memory */

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
  int relu;           /* negative results become zero */
  const float* mask; /* of c's size: results are kept only where this is above zero; or NULL */
  float* sums;        /* of the columns of b; or NULL */
} Product;

/* Return this thread's scratch memory for a packed panel of b. */
static float* scratch(int64_t numbers) {
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
/* LANES x LANES numbers transposed, in as many rounds as LANES has doublings: in each, pairs of rows exchange every other run of numbers. */
static inline __attribute__((always_inline)) void transpose(const float* from, int64_t from_row, float* to, int64_t to_row) {
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
static void transpose(const float* from, int64_t from_row, float* to, int64_t to_row) {
  for (int i = 0; i < LANES; i++)
    for (int j = 0; j < LANES; j++) to[j * to_row + i] = from[i * from_row + j];
}
#endif

/* Pack columns [0, width) of b as rows of `wide` numbers, padded with zeros. */
static void pack(Matrix b, int64_t depth, int64_t width, int64_t wide, float* panel) {
  int64_t whole = b.row == 1 && width == wide ? depth / LANES * LANES : 0;
  for (int64_t k = 0; k < whole; k += LANES)
    for (int64_t j = 0; j < wide; j += LANES) transpose(b.of + k + j * b.column, b.column, panel + k * wide + j, wide);
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
  const float* with; /* the biases, or the mask */
} Block;

enum { PLAIN, RELU, MASK }; /* what is done to the sums before they are stored */

/* `a_transposed`: a's columns are contiguous, not its rows. All that is constant here the compiler knows: it keeps the sums in registers, addresses cost nothing. */
static inline __attribute__((always_inline)) void multiply(int rows, int vectors, int a_transposed, int epilogue, const Block* block) {
  Vector sum[BLOCK][2] = {0};
  const float *a = block->a.of, *panel = block->panel;
  const int64_t a_row = block->a.row, a_column = block->a.column, depth = block->depth;
  const int64_t panel_row = block->panel_row;
  for (int64_t k = 0; k < depth; k++) {
    const float* b = panel + k * panel_row;
    Vector first = *(const Loose*)b, second = vectors == 2 ? *(const Loose*)(b + LANES) : first;
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
      float number = a_transposed ? a[k * a_column + i] : a[i * a_row + k];
      sum[i][0] += number * first;
      if (vectors == 2) sum[i][1] += number * second;
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
    for (int half = 0; half < vectors; half++) {
      Vector total = sum[i][half], none = {0};
      if (epilogue == RELU) {
        total += *(const Loose*)(block->with + half * LANES);
        total = (Vector)((Lanes)total & ~(total <= none)); /* what is no number stays none */
      }
      if (epilogue == MASK) total = (Vector)((Lanes)total & (*(const Loose*)(block->with + i * block->c_row + half * LANES) > none));
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
KIND(with_relu, 2, 0, RELU)
KIND(masked, 2, 0, MASK)
KIND(plain_transposed, 2, 1, PLAIN)
KIND(narrow, 1, 0, PLAIN)
KIND(narrow_transposed, 1, 1, PLAIN)

/* Store sums that a block does not store itself: of a partial panel, or a transposed result. */
static void store(const Product* p, int64_t row, int rows, int64_t column, int64_t width, const float* sums) {
  for (int i = 0; i < rows; i++)
    for (int64_t j = 0; j < width; j++) {
      float sum = sums[i * PANEL + j] + (p->bias ? p->bias[column + j] : 0.0f);
      if (p->relu) sum = sum <= 0.0f ? 0.0f : sum;
      if (p->mask && !(p->mask[(row + i) * p->columns + column + j] > 0.0f)) sum = 0.0f;
      p->c[(row + i) * p->c_row + (column + j) * p->c_column] = sum;
    }
}

static int64_t panels(const Product* p) { return (p->columns + PANEL - 1) / PANEL; }
static int64_t width(const Product* p, int64_t number) { return p->columns - number * PANEL < PANEL ? p->columns - number * PANEL : PANEL; }

static void sum_columns(const float* panel, int64_t panel_row, int64_t depth, int64_t columns, float* sums) {
  Vector total[2] = {0};
  for (int64_t k = 0; k < depth; k++)
    for (int half = 0; half * LANES < columns; half++) total[half] += *(const Loose*)(panel + k * panel_row + half * LANES);
  memcpy(sums, total, columns * sizeof(float));
}

/* Prefetch a share of a panel into the cache. */
static void prefetch(const Product* p, int64_t number, int64_t share, int64_t shares) {
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

/* Multiply rows [first, last) with this panel, from the last row `down`, or up. */
static void multiply_panel(const Product* p, int64_t number, int64_t first, int64_t last, const Product* next, int down) {
  int64_t column = number * PANEL, columns = width(p, number);
  int a_transposed = p->a.column != 1, full = columns == PANEL, whole = full && p->c_column == 1 && !p->bias == !p->relu;
  const float* panel = p->b.of + column;
  int64_t panel_row = p->b.row;
  if (!full || p->b.column != 1 || p->b.row > NEAR_ROWS) {
    panel_row = columns > LANES ? PANEL : LANES;
    float* packed = scratch(p->depth * PANEL);
    pack((Matrix){p->b.of + column * p->b.column, p->b.row, p->b.column}, p->depth, columns, panel_row, packed);
    panel = packed;
  }
  if (p->sums && !first) sum_columns(panel, panel_row, p->depth, columns, p->sums + column);
  int64_t blocks = (last - first + BLOCK - 1) / BLOCK; /* as equal as can be */
  for (int64_t done = 0; done < blocks; done++) {
    int64_t i = down ? blocks - 1 - done : done;
    int64_t row = first + i * (last - first) / blocks;
    int rows = (int)(first + (i + 1) * (last - first) / blocks - row);
    if (!a_transposed) number + 1 < panels(p) ? prefetch(p, number + 1, i, blocks) : next ? prefetch(next, 0, i, blocks) : (void)0;
    _Alignas(64) float sums[BLOCK * PANEL];
    Block block = {{p->a.of + row * p->a.row, p->a.row, p->a.column}, panel, panel_row, p->depth, sums, PANEL, NULL};
    if (whole) {
      block.c = p->c + row * p->c_row + column;
      block.c_row = p->c_row;
      block.with = p->relu ? p->bias + column : p->mask ? p->mask + row * p->columns + column : NULL;
    }
    if (panel_row == LANES) (a_transposed ? narrow_transposed : narrow)(rows, &block);
    else if (a_transposed) plain_transposed(rows, &block);
    else if (whole && p->relu) with_relu(rows, &block);
    else if (whole && p->mask) masked(rows, &block);
    else plain(rows, &block);
    if (!whole) store(p, row, rows, column, columns, sums);
  }
}

/* Multiply rows with a single column: a dot product each, no panel. */
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
    store(p, i, 1, 0, 1, &total);
  }
}

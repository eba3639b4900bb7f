/* Passes through networks, forward and back, the loss of quantile critics, and the steps of optimisers, by all cores of a run.
 *
 * Every number is one thread's work, in an order that depends on the sizes alone: how many threads there are changes no bit. */
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "product.h"
#include "team.h"
#include "xla/ffi/api/c_api.h"

#define MOST 64      /* products of a pass */
#define PIECE 128    /* rows of a panel that are worth going through it for */
#define ALONE 200000 /* operations that are sooner done than shared */
#define EACH 20      /* operations that moving a parameter is worth */
#define AHEAD 256    /* parameters that are called for before they are moved */
#define PAIR 16      /* operations that comparing two quantiles is worth */

/* ---- how the cores of a run divide a pass: networks of the same sizes, laid behind one another ---- */

/* Two cores are rarely as fast as one another for long, where others have their share of them. Work is divided as both were lately. */
static _Atomic double first_share = 0.5;
#define SLOWLY 0.1 /* of the way at a time */
#define FEW 0.15   /* of a network that is not worth having its parameters on both cores */

typedef struct {
  int64_t networks, parts;
  double cut; /* of two parts, how many networks the first has */
} Division;

static Division divided(int64_t networks, double operations) {
  double cut = first_share * networks, whole = round(cut);
  /* Between networks, if that is about right: a network that stays on a core has all it needs in that core's cache. */
  if (0 < whole && whole < networks && fabs(cut - whole) < FEW) cut = whole;
  return (Division){networks, operations < ALONE ? 1 : team.helpers + 1, cut};
}

/* In networks. */
static double start_of_part(const Division* by, int64_t part) {
  return by->parts == 2 && part == 1 ? by->cut : (double)(part * by->networks) / by->parts;
}

/* ---- layers: of each network one product after the other, each of which needs of the one before only its own rows; or all products at once ---- */

typedef struct {
  Division by;
  int64_t layers;
  int64_t took[2];     /* nanoseconds of each of two parts */
  const void* whom[2]; /* and whose they were */
  Product of[MOST];    /* network by network */
} Chain;

static double operations(const Product* p) { return 2.0 * p->rows * p->columns * p->depth; }

static double of_one_network(const Chain* chain) {
  double all = 0;
  for (int64_t i = 0; i < chain->layers; i++) all += operations(chain->of + i);
  return all;
}

static int64_t within(int64_t row, int64_t rows) { return row < 0 ? 0 : row > rows ? rows : row; }

static void multiply_rows(const Product* p, const Product* end, int64_t first, int64_t last, int down) {
  for (; p < end && first < last; p++) {
    if (p->columns == 1 && p->a.column == 1) multiply_by_one_column(p, first, last);
    else for (int64_t number = 0; number < panels(p); number++) multiply_panel(p, number, first, last, p + 1 < end ? p + 1 : NULL, down);
  }
}

static void multiply_part(const void* pass, int64_t part) {
  Chain* chain = (Chain*)pass;
  int64_t began = nanoseconds(), rows = chain->of->rows;
  int64_t first = (int64_t)(start_of_part(&chain->by, part) * rows + 0.5), last = (int64_t)(start_of_part(&chain->by, part + 1) * rows + 0.5);
  for (int64_t network = 0; network < chain->by.networks; network++, first -= rows, last -= rows) {
    const Product* p = chain->of + network * chain->layers;
    /* Down, away from the next part: a core reads on past the end of what it goes through, and would take from the other what that is about to write. */
    multiply_rows(p, p + chain->layers, within(first, rows), within(last, rows), !part);
  }
  static _Thread_local char me;
  if (part < 2) {
    chain->took[part] = nanoseconds() - began;
    chain->whom[part] = &me;
  }
}

static void one_after_the_other(Chain* chain, int64_t networks) {
  chain->by = divided(networks, networks * of_one_network(chain));
  share(multiply_part, chain, chain->by.parts);
  if (chain->by.parts != 2 || chain->whom[0] == chain->whom[1] || !chain->took[0] || !chain->took[1]) return;
  double mine = chain->by.cut / chain->took[0], theirs = (networks - chain->by.cut) / chain->took[1], wanted = mine / (mine + theirs);
  wanted = wanted < 0.2 ? 0.2 : wanted > 0.8 ? 0.8 : wanted;
  double lately = first_share;
  first_share = lately + SLOWLY * (wanted - lately);
}

/* Of each product some panels, for some of the rows, such that about as many operations come before as the part begins behind. */
static void multiply_panels(const void* pass, int64_t part) {
  const Chain* chain = pass;
  double first = start_of_part(&chain->by, part), last = start_of_part(&chain->by, part + 1), all = of_one_network(chain), before = 0;
  for (const Product* p = chain->of; p < chain->of + chain->by.networks * chain->layers; p++) {
    int64_t pieces = chain->by.parts > 1 && p->rows >= 2 * PIECE ? p->rows / PIECE : 1, tiles = pieces * panels(p);
    for (int64_t tile = 0; tile < tiles; tile++) {
      double middle = (before + operations(p) * (tile + 0.5) / tiles) / all;
      int64_t piece = tile / panels(p);
      if (first <= middle && middle < last) multiply_panel(p, tile % panels(p), piece * p->rows / pieces, (piece + 1) * p->rows / pieces, NULL, 0);
    }
    before += operations(p);
  }
}

static void all_at_once(Chain* chain, int64_t networks) {
  chain->by = divided(networks, networks * of_one_network(chain));
  share(multiply_panels, chain, chain->by.parts);
}

/* ---- what XLA calls ---- */

static const XLA_FFI_Buffer* given(const XLA_FFI_CallFrame* frame, int64_t place) { return frame->args.args[place]; }
static const XLA_FFI_Buffer* made(const XLA_FFI_CallFrame* frame, int64_t place) { return frame->rets.rets[place]; }

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

/* Networks of the same sizes go through a pass together. What each layer of them has or makes is one array, network by network; only their kernels
 * and biases, and the slopes of these, are arrays of their own. */

static float* of_network(const XLA_FFI_Buffer* buffer, int64_t network) {
  return (float*)buffer->data + (buffer->rank == 3 ? network * buffer->dims[1] * buffer->dims[2] : 0); /* what they all see is there once */
}

static int64_t wide(const XLA_FFI_Buffer* buffer) { return buffer->dims[buffer->rank - 1]; }

static XLA_FFI_Error* too_many(const XLA_FFI_CallFrame* frame) { return refuse(frame, "dualac: a pass has at most 64 layers, of all its networks"); }

/* (x, then of each network kernel, bias, kernel, bias, ...) -> what each layer makes of what the one before made: a product and a bias, and through a
 * ReLU but for the last. */
XLA_FFI_Error* dualac_layers_forward(XLA_FFI_CallFrame* frame) {
  if (asked_for_version(frame)) return NULL;
  int64_t networks = made(frame, 0)->dims[0];
  Chain chain = {.layers = frame->rets.size};
  if (networks * chain.layers > MOST) return too_many(frame);
  for (int64_t network = 0; network < networks; network++)
    for (int64_t i = 0; i < chain.layers; i++) {
      int64_t place = network * chain.layers + i;
      const XLA_FFI_Buffer *x = i ? made(frame, i - 1) : given(frame, 0), *kernel = given(frame, 1 + 2 * place);
      int64_t inputs = kernel->dims[0], outputs = kernel->dims[1];
      chain.of[place] = (Product){
          .rows = made(frame, 0)->dims[1], .columns = outputs, .depth = inputs, .a = {of_network(x, network), inputs, 1}, .b = {kernel->data, outputs, 1},
          .c = of_network(made(frame, i), network), .c_row = outputs, .c_column = 1, .bias = given(frame, 2 + 2 * place)->data,
          .relu = i + 1 < chain.layers};
    }
  one_after_the_other(&chain, networks);
  return NULL;
}

/* (slope, then of each network its kernels, from the last layer on, and then what each of these layers saw) -> the slopes of what ReLUs made that of;
 * without what they saw, the slopes of that itself. */
XLA_FFI_Error* dualac_layers_backward(XLA_FFI_CallFrame* frame) {
  if (asked_for_version(frame)) return NULL;
  int64_t networks = made(frame, 0)->dims[0];
  Chain chain = {.layers = frame->rets.size};
  int64_t products = networks * chain.layers;
  if (products > MOST) return too_many(frame);
  for (int64_t network = 0; network < networks; network++)
    for (int64_t i = 0; i < chain.layers; i++) {
      int64_t place = network * chain.layers + i;
      const XLA_FFI_Buffer *slope = i ? made(frame, i - 1) : given(frame, 0), *kernel = given(frame, 1 + place);
      int64_t inputs = kernel->dims[0], outputs = kernel->dims[1];
      chain.of[place] = (Product){
          .rows = made(frame, 0)->dims[1], .columns = inputs, .depth = outputs, .a = {of_network(slope, network), outputs, 1},
          .b = {kernel->data, 1, outputs}, .c = of_network(made(frame, i), network), .c_row = inputs, .c_column = 1,
          .above = frame->args.size > 1 + products ? of_network(given(frame, 1 + products + i), network) : NULL};
    }
  one_after_the_other(&chain, networks);
  return NULL;
}

/* (what each layer saw, ..., the slope of what it made, ...) -> x' slope of each network's layers, and the sums of the slopes' columns: the slopes of
 * kernels and biases. */
XLA_FFI_Error* dualac_layers_gradients(XLA_FFI_CallFrame* frame) {
  if (asked_for_version(frame)) return NULL;
  Chain chain = {.layers = frame->args.size / 2};
  int64_t products = frame->rets.size / 2;
  if (products > MOST) return too_many(frame);
  for (int64_t place = 0; place < products; place++) {
    int64_t network = place / chain.layers, i = place % chain.layers;
    const XLA_FFI_Buffer *seen = given(frame, i), *slopes = given(frame, chain.layers + i);
    int64_t rows = slopes->dims[1], inputs = wide(seen), outputs = wide(slopes);
    const float *x = of_network(seen, network), *slope = of_network(slopes, network);
    float *kernel = made(frame, place)->data, *bias = made(frame, products + place)->data;
    chain.of[place] = (Product){
        .rows = inputs, .columns = outputs, .depth = rows, .a = {x, 1, inputs}, .b = {slope, outputs, 1},
        .c = kernel, .c_row = outputs, .c_column = 1, .sums = bias};
    if (outputs > LANES) continue;
    /* Few outputs: by the other side, whose panels are full. */
    chain.of[place] = (Product){
        .rows = outputs, .columns = inputs, .depth = rows, .a = {slope, 1, outputs}, .b = {x, inputs, 1},
        .c = kernel, .c_row = 1, .c_column = outputs};
    memset(bias, 0, outputs * sizeof(float));
    for (int64_t k = 0; k < rows; k++)
      for (int64_t j = 0; j < outputs; j++) bias[j] += slope[k * outputs + j];
  }
  all_at_once(&chain, products / chain.layers);
  return NULL;
}

/* ---- quantile critics: each of their values beside each of its targets ---- */

typedef struct {
  Division by;
  int64_t rows, quantiles, targets; /* of each critic */
  const float *z, *y;
  float *losses, *slopes;
  float kappa;
} Comparison;

/* Of a row PANEL quantiles at a time, whose sums stay in registers; those behind the last are counted as none. */
static void compare_row(const Comparison* of, const float* z, const float* y, float* loss, float* slope) {
  const float kappa = of->kappa, number = of->quantiles;
  *loss = 0;
  for (int64_t first = 0; first < of->quantiles; first += PANEL) {
    int64_t count = of->quantiles - first < PANEL ? of->quantiles - first : PANEL;
    float level[PANEL], values[PANEL], losses[PANEL], slopes[PANEL];
    for (int64_t i = 0; i < PANEL; i++) {
      level[i] = (first + i + 0.5f) / number;
      values[i] = i < count ? z[first + i] : 0;
      losses[i] = slopes[i] = 0;
    }
    for (int64_t j = 0; j < of->targets; j++)
      for (int64_t i = 0; i < PANEL; i++) {
        float error = y[j] - values[i], above = error < -kappa ? -kappa : error, clipped = above > kappa ? kappa : above;
        float weighted = (error < 0 ? 1 - level[i] : level[i]) * clipped;
        losses[i] += weighted * (error - clipped * 0.5f);
        slopes[i] -= weighted;
      }
    for (int64_t i = 0; i < count; i++) {
      *loss += losses[i];
      slope[first + i] = slopes[i];
    }
  }
}

static void compare_part(const void* pass, int64_t part) {
  const Comparison* of = pass;
  int64_t first = (int64_t)(start_of_part(&of->by, part) * of->rows + 0.5), last = (int64_t)(start_of_part(&of->by, part + 1) * of->rows + 0.5);
  for (int64_t row = first; row < last; row++)
    compare_row(of, of->z + row * of->quantiles, of->y + row % of->rows * of->targets, of->losses + row, of->slopes + row * of->quantiles);
}

/* (values of each critic, row and quantile; targets of each row) -> of each critic and row, its loss summed over all pairs; and the slopes of that. */
XLA_FFI_Error* dualac_quantile_loss(XLA_FFI_CallFrame* frame) {
  if (asked_for_version(frame)) return NULL;
  const XLA_FFI_Buffer *z = given(frame, 0), *y = given(frame, 1);
  Comparison of = {
      .rows = z->dims[1], .quantiles = z->dims[2], .targets = y->dims[1], .z = z->data, .y = y->data,
      .losses = made(frame, 0)->data, .slopes = made(frame, 1)->data, .kappa = *(const float*)attribute(frame, 0)};
  of.by = divided(z->dims[0], (double)PAIR * length(z) * of.targets);
  share(compare_part, &of, of.by.parts);
  return NULL;
}

/* ---- optimisers: passes over all parameters of a network ---- */

typedef struct {
  const XLA_FFI_CallFrame* frame;
  int64_t first, arrays; /* of the arguments, how many come before the arrays, and how many arrays of each kind there are */
  int64_t parts;
  int64_t stretch; /* numbers of an array that are one core's, and whose squares are added up together */
  float b1, b2, new1, new2; /* how much of the means is kept, and how much of a gradient comes to them */
  float step, least, rest, weight;
} Pass;

typedef void (*Move)(const Pass* pass, int64_t array, int64_t start, int64_t end);

static int64_t numbers(const Pass* pass) {
  int64_t total = 0;
  for (int64_t array = 0; array < pass->arrays; array++) total += length(given(pass->frame, pass->first + array));
  return total;
}

/* Where an array is cut, if all numbers are cut here: between two stretches of it. */
static int64_t cut(const Pass* pass, int64_t at, int64_t size) { return at <= 0 ? 0 : at >= size ? size : at / pass->stretch * pass->stretch; }

/* A part of all numbers, always the same ones: they stay in a core's cache. */
static void move_part(const Pass* pass, int64_t part, Move move) {
  int64_t all = numbers(pass), first = part * all / pass->parts, last = (part + 1) * all / pass->parts;
  for (int64_t array = 0; array < pass->arrays; array++) {
    int64_t size = length(given(pass->frame, pass->first + array));
    if (first < size && last > 0) move(pass, array, cut(pass, first, size), cut(pass, last, size));
    first -= size;
    last -= size;
  }
}

static void move_all(Pass* pass, Work part) {
  pass->parts = numbers(pass) * EACH < ALONE ? 1 : team.helpers + 1;
  share(part, pass, pass->parts);
}

static float sum_of_squares(const float* of, int64_t count) {
  Vector sums[4] = {};
  int64_t i = 0;
  for (; i + 4 * LANES <= count; i += 4 * LANES)
    for (int j = 0; j < 4; j++) {
      Vector x = *(const Loose*)(of + i + j * LANES);
      sums[j] += x * x;
    }
  Vector all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  float sum = 0;
  for (; i < count; i++) sum += of[i] * of[i];
  for (int lane = 0; lane < LANES; lane++) sum += all[lane];
  return sum;
}

/* Of each stretch of the gradients; those of an array come behind those of the arrays before it. */
static void measure_array(const Pass* pass, int64_t array, int64_t start, int64_t end) {
  const XLA_FFI_CallFrame* frame = pass->frame;
  const float* g = given(frame, 2 + 3 * pass->arrays + array)->data;
  float* sums = made(frame, 3 * pass->arrays)->data;
  for (int64_t before = 0; before < array; before++) sums += (length(given(frame, 2 + before)) + pass->stretch - 1) / pass->stretch;
  for (; start < end; start += pass->stretch) sums[start / pass->stretch] = sum_of_squares(g + start, end - start < pass->stretch ? end - start : pass->stretch);
}

static void descend_array(const Pass* pass, int64_t array, int64_t start, int64_t end) {
  measure_array(pass, array, start, end);
  const XLA_FFI_CallFrame* frame = pass->frame;
  int64_t n = pass->arrays, run = pass->parts > 1 ? AHEAD : end - start;
  const float *p = given(frame, 2 + array)->data, *m = given(frame, 2 + n + array)->data, *v = given(frame, 2 + 2 * n + array)->data;
  const float* g = given(frame, 2 + 3 * n + array)->data;
  float *new_p = made(frame, array)->data, *new_m = made(frame, n + array)->data, *new_v = made(frame, 2 * n + array)->data;
  const float b1 = pass->b1, b2 = pass->b2, new1 = pass->new1, new2 = pass->new2, step = pass->step, least = pass->least;
  for (int64_t stop; start < end; start = stop) {
    stop = end - start < run ? end : start + run;
    /* What other cores have read takes long to be had for writing: as much at a time as the core can wait for. */
    for (int64_t i = stop; i < end && i < stop + run; i += 16) __builtin_prefetch(new_p + i, 1);
#pragma GCC ivdep
    for (int64_t i = start; i < stop; i++) {
      float mean = b1 * m[i] + new1 * g[i], square = b2 * v[i] + new2 * (g[i] * g[i]);
      new_p[i] = p[i] - step * mean / (sqrtf(square) + least);
      new_m[i] = mean;
      new_v[i] = square;
    }
  }
}

static void descend_part(const void* pass, int64_t part) { move_part(pass, part, descend_array); }

/* (step, least, parameters..., means..., squares..., gradients...) -> parameters..., means..., squares... after a step of Adam, and of each stretch of
 * the gradients the sum of their squares. */
XLA_FFI_Error* dualac_adam(XLA_FFI_CallFrame* frame) {
  if (asked_for_version(frame)) return NULL;
  Pass pass = {
      .frame = frame, .first = 2, .arrays = (frame->args.size - 2) / 4, .b1 = *(const float*)attribute(frame, 0), .b2 = *(const float*)attribute(frame, 1),
      .new1 = *(const float*)attribute(frame, 2), .new2 = *(const float*)attribute(frame, 3), .stretch = *(const int64_t*)attribute(frame, 4),
      .step = *(const float*)given(frame, 0)->data, .least = *(const float*)given(frame, 1)->data};
  move_all(&pass, descend_part);
  return NULL;
}

static void follow_array(const Pass* pass, int64_t array, int64_t start, int64_t end) {
  const float *slow = given(pass->frame, array)->data, *fast = given(pass->frame, pass->arrays + array)->data;
  float* moved = made(pass->frame, array)->data;
  const float rest = pass->rest, weight = pass->weight;
#pragma GCC ivdep
  for (int64_t i = start; i < end; i++) moved[i] = rest * slow[i] + weight * fast[i];
}

static void follow_part(const void* pass, int64_t part) { move_part(pass, part, follow_array); }

/* (slow..., fast...) -> slow... a little closer. */
XLA_FFI_Error* dualac_polyak_average(XLA_FFI_CallFrame* frame) {
  if (asked_for_version(frame)) return NULL;
  Pass pass = {
      .frame = frame, .arrays = frame->args.size / 2, .stretch = 1, .rest = *(const float*)attribute(frame, 0),
      .weight = *(const float*)attribute(frame, 1)};
  move_all(&pass, follow_part);
  return NULL;
}

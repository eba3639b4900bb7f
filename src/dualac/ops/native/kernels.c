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

#define MAX_LAYERS 64      /* products of a pass */
#define ROWS_PER_TILE 128    /* fewest rows that pay for packing a panel */
#define MIN_SHARED_OPS 200000 /* fewer are done sooner by one thread */
#define OPS_PER_PARAMETER 20      /* what Adam costs */
#define PREFETCH_DISTANCE 256    /* in parameters */
#define OPS_PER_PAIR 16      /* what comparing two quantiles costs */

/* ---- how the cores of a run divide a pass: networks of the same sizes, laid behind one another ---- */

/* Two cores are rarely as fast as one another for long, where others have their share of them. Divide the work by how fast both were lately. */
static _Atomic double first_share = 0.5;
#define SMOOTHING 0.1 /* of the way at a time */
#define MIN_FRACTION 0.15   /* of a network: less is not worth its parameters in both cores' caches */

typedef struct {
  int64_t networks, parts;
  double cut; /* of two parts, how many networks the first has */
} Division;

static Division divide(int64_t networks, double operations) {
  double cut = first_share * networks, whole = round(cut);
  /* Between networks, if that is about right: a network that stays on a core has all it needs in that core's cache. */
  if (0 < whole && whole < networks && fabs(cut - whole) < MIN_FRACTION) cut = whole;
  return (Division){networks, operations < MIN_SHARED_OPS ? 1 : team.helpers + 1, cut};
}

/* In networks. */
static double start_of_part(const Division* by, int64_t part) {
  return by->parts == 2 && part == 1 ? by->cut : (double)(part * by->networks) / by->parts;
}

/* ---- layers: of each network one product after the other, each of which needs of the one before only its own rows; or all products at once ---- */

typedef struct {
  Division by;
  int64_t layers;
  int64_t nanoseconds_taken[2];     /* nanoseconds of each of two parts */
  const void* threads[2]; /* and which threads these were */
  Product of[MAX_LAYERS];    /* network by network */
} Chain;

static double operations(const Product* p) { return 2.0 * p->rows * p->columns * p->depth; }

static double of_one_network(const Chain* chain) {
  double all = 0;
  for (int64_t i = 0; i < chain->layers; i++) all += operations(chain->of + i);
  return all;
}

static int64_t clamp(int64_t row, int64_t rows) { return row < 0 ? 0 : row > rows ? rows : row; }

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
    multiply_rows(p, p + chain->layers, clamp(first, rows), clamp(last, rows), !part);
  }
  static _Thread_local char me;
  if (part < 2) {
    chain->nanoseconds_taken[part] = nanoseconds() - began;
    chain->threads[part] = &me;
  }
}

static void run_layers_in_order(Chain* chain, int64_t networks) {
  chain->by = divide(networks, networks * of_one_network(chain));
  share(multiply_part, chain, chain->by.parts);
  if (chain->by.parts != 2 || chain->threads[0] == chain->threads[1] || !chain->nanoseconds_taken[0] || !chain->nanoseconds_taken[1]) return;
  double mine = chain->by.cut / chain->nanoseconds_taken[0], theirs = (networks - chain->by.cut) / chain->nanoseconds_taken[1], wanted = mine / (mine + theirs);
  wanted = wanted < 0.2 ? 0.2 : wanted > 0.8 ? 0.8 : wanted;
  double lately = first_share;
  first_share = lately + SMOOTHING * (wanted - lately);
}

/* Of each product some panels, for some of the rows, such that about as many operations come before as the part begins behind. */
static void multiply_panels(const void* pass, int64_t part) {
  const Chain* chain = pass;
  double first = start_of_part(&chain->by, part), last = start_of_part(&chain->by, part + 1), all = of_one_network(chain), before = 0;
  for (const Product* p = chain->of; p < chain->of + chain->by.networks * chain->layers; p++) {
    int64_t pieces = chain->by.parts > 1 && p->rows >= 2 * ROWS_PER_TILE ? p->rows / ROWS_PER_TILE : 1, tiles = pieces * panels(p);
    for (int64_t tile = 0; tile < tiles; tile++) {
      double middle = (before + operations(p) * (tile + 0.5) / tiles) / all;
      int64_t piece = tile / panels(p);
      if (first <= middle && middle < last) multiply_panel(p, tile % panels(p), piece * p->rows / pieces, (piece + 1) * p->rows / pieces, NULL, 0);
    }
    before += operations(p);
  }
}

static void run_all_products(Chain* chain, int64_t networks) {
  chain->by = divide(networks, networks * of_one_network(chain));
  share(multiply_panels, chain, chain->by.parts);
}

/* ---- what XLA calls ---- */

static const XLA_FFI_Buffer* argument(const XLA_FFI_CallFrame* frame, int64_t place) { return frame->args.args[place]; }
static const XLA_FFI_Buffer* result(const XLA_FFI_CallFrame* frame, int64_t place) { return frame->rets.rets[place]; }

static int64_t length(const XLA_FFI_Buffer* buffer) {
  int64_t product = 1;
  for (int64_t axis = 0; axis < buffer->rank; axis++) product *= buffer->dims[axis];
  return product;
}

/* Return an attribute; they come in the order of their names. */
static const void* attribute_at(const XLA_FFI_CallFrame* frame, int place) { return ((const XLA_FFI_Scalar*)frame->attrs.attrs[place])->value; }

/* Answer XLA's query for the version of its interface; return whether it was one. */
static int answer_metadata_query(const XLA_FFI_CallFrame* frame) {
  XLA_FFI_Extension_Base* query = frame->extension_start;
  if (!query || query->type != XLA_FFI_Extension_Metadata) return 0;
  XLA_FFI_Metadata* metadata = ((XLA_FFI_Metadata_Extension*)query)->metadata;
  metadata->api_version.major_version = XLA_FFI_API_MAJOR;
  metadata->api_version.minor_version = XLA_FFI_API_MINOR;
  metadata->traits = 0;
  metadata->state_type_id.type_id = 0;
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

static int64_t row_length(const XLA_FFI_Buffer* buffer) { return buffer->dims[buffer->rank - 1]; }

static XLA_FFI_Error* refuse_too_many_layers(const XLA_FFI_CallFrame* frame) { return refuse(frame, "dualac: a pass has at most 64 layers, of all its networks"); }

/* (x, then of each network kernel, bias, kernel, bias, ...) -> each layer's output: a product and a bias, and through a
 * ReLU but for the last. */
XLA_FFI_Error* dualac_layers_forward(XLA_FFI_CallFrame* frame) {
  if (answer_metadata_query(frame)) return NULL;
  int64_t networks = result(frame, 0)->dims[0];
  Chain chain = {.layers = frame->rets.size};
  if (networks * chain.layers > MAX_LAYERS) return refuse_too_many_layers(frame);
  for (int64_t network = 0; network < networks; network++)
    for (int64_t i = 0; i < chain.layers; i++) {
      int64_t place = network * chain.layers + i;
      const XLA_FFI_Buffer *x = i ? result(frame, i - 1) : argument(frame, 0), *kernel = argument(frame, 1 + 2 * place);
      int64_t inputs = kernel->dims[0], outputs = kernel->dims[1];
      chain.of[place] = (Product){
          .rows = result(frame, 0)->dims[1], .columns = outputs, .depth = inputs, .a = {of_network(x, network), inputs, 1}, .b = {kernel->data, outputs, 1},
          .c = of_network(result(frame, i), network), .c_row = outputs, .c_column = 1, .bias = argument(frame, 2 + 2 * place)->data,
          .relu = i + 1 < chain.layers};
    }
  run_layers_in_order(&chain, networks);
  return NULL;
}

/* (slope of the output, each network's kernels from the last layer on, then the inputs of these layers) -> the slopes of the layers' inputs, where
 * these are positive (ReLU); without the inputs, the slopes as they are. */
XLA_FFI_Error* dualac_layers_backward(XLA_FFI_CallFrame* frame) {
  if (answer_metadata_query(frame)) return NULL;
  int64_t networks = result(frame, 0)->dims[0];
  Chain chain = {.layers = frame->rets.size};
  int64_t products = networks * chain.layers;
  if (products > MAX_LAYERS) return refuse_too_many_layers(frame);
  for (int64_t network = 0; network < networks; network++)
    for (int64_t i = 0; i < chain.layers; i++) {
      int64_t place = network * chain.layers + i;
      const XLA_FFI_Buffer *slope = i ? result(frame, i - 1) : argument(frame, 0), *kernel = argument(frame, 1 + place);
      int64_t inputs = kernel->dims[0], outputs = kernel->dims[1];
      chain.of[place] = (Product){
          .rows = result(frame, 0)->dims[1], .columns = inputs, .depth = outputs, .a = {of_network(slope, network), outputs, 1},
          .b = {kernel->data, 1, outputs}, .c = of_network(result(frame, i), network), .c_row = inputs, .c_column = 1,
          .mask = frame->args.size > 1 + products ? of_network(argument(frame, 1 + products + i), network) : NULL};
    }
  run_layers_in_order(&chain, networks);
  return NULL;
}

/* (each layer's input x, ..., the slope of its output, ...) -> the gradients of each network's kernels, x' slope, and of its biases, the sums of the
 * slopes' columns. */
XLA_FFI_Error* dualac_layers_gradients(XLA_FFI_CallFrame* frame) {
  if (answer_metadata_query(frame)) return NULL;
  Chain chain = {.layers = frame->args.size / 2};
  int64_t products = frame->rets.size / 2;
  if (products > MAX_LAYERS) return refuse_too_many_layers(frame);
  for (int64_t place = 0; place < products; place++) {
    int64_t network = place / chain.layers, i = place % chain.layers;
    const XLA_FFI_Buffer *layer_input = argument(frame, i), *slopes = argument(frame, chain.layers + i);
    int64_t rows = slopes->dims[1], inputs = row_length(layer_input), outputs = row_length(slopes);
    const float *x = of_network(layer_input, network), *slope = of_network(slopes, network);
    float *kernel = result(frame, place)->data, *bias = result(frame, products + place)->data;
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
  run_all_products(&chain, products / chain.layers);
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
        float error = y[j] - values[i], mask = error < -kappa ? -kappa : error, clipped = mask > kappa ? kappa : mask;
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
  if (answer_metadata_query(frame)) return NULL;
  const XLA_FFI_Buffer *z = argument(frame, 0), *y = argument(frame, 1);
  Comparison of = {
      .rows = z->dims[1], .quantiles = z->dims[2], .targets = y->dims[1], .z = z->data, .y = y->data,
      .losses = result(frame, 0)->data, .slopes = result(frame, 1)->data, .kappa = *(const float*)attribute_at(frame, 0)};
  of.by = divide(z->dims[0], (double)OPS_PER_PAIR * length(z) * of.targets);
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
  for (int64_t array = 0; array < pass->arrays; array++) total += length(argument(pass->frame, pass->first + array));
  return total;
}

/* Where an array is cut, if all numbers are cut here: between two stretches of it. */
static int64_t cut(const Pass* pass, int64_t at, int64_t size) { return at <= 0 ? 0 : at >= size ? size : at / pass->stretch * pass->stretch; }

/* A part of all numbers, always the same ones: they stay in a core's cache. */
static void move_part(const Pass* pass, int64_t part, Move move) {
  int64_t all = numbers(pass), first = part * all / pass->parts, last = (part + 1) * all / pass->parts;
  for (int64_t array = 0; array < pass->arrays; array++) {
    int64_t size = length(argument(pass->frame, pass->first + array));
    if (first < size && last > 0) move(pass, array, cut(pass, first, size), cut(pass, last, size));
    first -= size;
    last -= size;
  }
}

static void move_all(Pass* pass, Work part) {
  pass->parts = numbers(pass) * OPS_PER_PARAMETER < MIN_SHARED_OPS ? 1 : team.helpers + 1;
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
  const float* g = argument(frame, 2 + 3 * pass->arrays + array)->data;
  float* sums = result(frame, 3 * pass->arrays)->data;
  for (int64_t before = 0; before < array; before++) sums += (length(argument(frame, 2 + before)) + pass->stretch - 1) / pass->stretch;
  for (; start < end; start += pass->stretch) sums[start / pass->stretch] = sum_of_squares(g + start, end - start < pass->stretch ? end - start : pass->stretch);
}

static void descend_array(const Pass* pass, int64_t array, int64_t start, int64_t end) {
  measure_array(pass, array, start, end);
  const XLA_FFI_CallFrame* frame = pass->frame;
  int64_t n = pass->arrays, run = pass->parts > 1 ? PREFETCH_DISTANCE : end - start;
  const float *p = argument(frame, 2 + array)->data, *m = argument(frame, 2 + n + array)->data, *v = argument(frame, 2 + 2 * n + array)->data;
  const float* g = argument(frame, 2 + 3 * n + array)->data;
  float *new_p = result(frame, array)->data, *new_m = result(frame, n + array)->data, *new_v = result(frame, 2 * n + array)->data;
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
  if (answer_metadata_query(frame)) return NULL;
  Pass pass = {
      .frame = frame, .first = 2, .arrays = (frame->args.size - 2) / 4, .b1 = *(const float*)attribute_at(frame, 0), .b2 = *(const float*)attribute_at(frame, 1),
      .new1 = *(const float*)attribute_at(frame, 2), .new2 = *(const float*)attribute_at(frame, 3), .stretch = *(const int64_t*)attribute_at(frame, 4),
      .step = *(const float*)argument(frame, 0)->data, .least = *(const float*)argument(frame, 1)->data};
  move_all(&pass, descend_part);
  return NULL;
}

static void follow_array(const Pass* pass, int64_t array, int64_t start, int64_t end) {
  const float *slow = argument(pass->frame, array)->data, *fast = argument(pass->frame, pass->arrays + array)->data;
  float* moved = result(pass->frame, array)->data;
  const float rest = pass->rest, weight = pass->weight;
#pragma GCC ivdep
  for (int64_t i = start; i < end; i++) moved[i] = rest * slow[i] + weight * fast[i];
}

static void follow_part(const void* pass, int64_t part) { move_part(pass, part, follow_array); }

/* (slow..., fast...) -> slow... a little closer. */
XLA_FFI_Error* dualac_polyak_average(XLA_FFI_CallFrame* frame) {
  if (answer_metadata_query(frame)) return NULL;
  Pass pass = {
      .frame = frame, .arrays = frame->args.size / 2, .stretch = 1, .rest = *(const float*)attribute_at(frame, 0),
      .weight = *(const float*)attribute_at(frame, 1)};
  move_all(&pass, follow_part);
  return NULL;
}

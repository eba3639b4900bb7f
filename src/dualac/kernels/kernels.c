/* Passes through networks, forward and back, and the steps of their optimisers, by all cores of a run.
 *
 * Every number is one thread's work, in an order that depends on the sizes alone: how many threads there are changes no bit. */
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "product.h"
#include "team.h"
#include "xla/ffi/api/c_api.h"

#define MOST 64      /* layers of a network */
#define PIECE 128    /* rows of a panel that are worth going through it for */
#define ALONE 200000 /* operations that are sooner done than shared */
#define CHUNK 8192   /* parameters that an optimiser moves at a time */

/* ---- layers: one product after the other, of which each needs of the one before only its own rows; or all products at once ---- */

typedef struct {
  int64_t count, parts;
  double first;      /* share of the rows that the first of two parts has */
  int64_t took[2];   /* nanoseconds of each of two */
  const void* by[2]; /* and whose they were */
  int64_t piece;     /* rows of a panel that are taken at a time, about */
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

static int64_t pieces(const Chain* chain, const Product* p) { return p->rows >= 2 * chain->piece ? p->rows / chain->piece : 1; }

static void multiply_piece(const void* pass, int64_t tile) {
  const Chain* chain = pass;
  const Product* p = chain->of;
  for (; tile >= panels(p) * pieces(chain, p); p++) tile -= panels(p) * pieces(chain, p);
  int64_t piece = tile / panels(p), all = pieces(chain, p);
  multiply_panel(p, tile % panels(p), piece * p->rows / all, (piece + 1) * p->rows / all, NULL);
}

static void all_at_once(Chain* chain) {
  int64_t tiles = 0;
  chain->piece = team.helpers ? PIECE : INT64_MAX / 2; /* with helpers so small that nobody waits long for whoever is last */
  for (int64_t i = 0; i < chain->count; i++) tiles += panels(chain->of + i) * pieces(chain, chain->of + i);
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
  float b1, b2, new1, new2; /* how much of the means is kept, and how much of a gradient comes to them */
  float step, least, rest, weight;
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
  const float b1 = pass->b1, b2 = pass->b2, new1 = pass->new1, new2 = pass->new2, step = pass->step, least = pass->least;
#pragma GCC ivdep
  for (int64_t i = start; i < end; i++) {
    float mean = b1 * m[i] + new1 * g[i], square = b2 * v[i] + new2 * (g[i] * g[i]);
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
      .new1 = *(const float*)attribute(frame, 2), .new2 = *(const float*)attribute(frame, 3),
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
  const float rest = pass->rest;
#pragma GCC ivdep
  for (int64_t i = start; i < end; i++) moved[i] = rest * slow[i] + weight * fast[i];
}

/* (slow..., fast...) -> slow... a little closer. */
XLA_FFI_Error* dualac_follow(XLA_FFI_CallFrame* frame) {
  if (asked_for_version(frame)) return NULL;
  Pass pass = {.frame = frame, .arrays = frame->args.size / 2, .rest = *(const float*)attribute(frame, 0), .weight = *(const float*)attribute(frame, 1)};
  share(follow_chunk, &pass, chunks(&pass));
  return NULL;
}

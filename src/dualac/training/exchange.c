/* The mean of what each of a run's devices has, taken by all of them in the midst of their programs.
 *
 * XLA's own exchange puts a device that waits to sleep, and on a CPU to wake it takes longer than what is exchanged. Here each stays on its core
 * till all have come, and reads the others' numbers where they lie. All add in the same order, so they leave with the same bits. */
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "xla/ffi/api/c_api.h"

#define MOST_PARTS 64
#define ROOMS 64     /* executions that may exchange at the same time */
#define BLOCK 1024   /* numbers that are added up while they are in the nearest cache */
#define LOOKS 1000   /* for the others, before the core is offered to whoever else may want it */

typedef struct {
  int64_t run; /* which execution meets here; this and the next two change behind the door */
  int taken, left;
  atomic_int entered;
  atomic_uint over; /* meetings that have ended here */
  const XLA_FFI_CallFrame* frames[MOST_PARTS];
} Room;

static Room rooms[ROOMS];
static atomic_flag door = ATOMIC_FLAG_INIT;

static void wait_a_little(int* looks) {
  if (++*looks < LOOKS) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  } else {
    sched_yield();
  }
}

static void lock(void) {
  for (int looks = 0; atomic_flag_test_and_set_explicit(&door, memory_order_acquire);) wait_a_little(&looks);
}

static void unlock(void) { atomic_flag_clear_explicit(&door, memory_order_release); }

/* The room of this execution, or NULL where all rooms are others'. */
static Room* room_of(int64_t run) {
  Room* empty = NULL;
  for (Room* room = rooms; room < rooms + ROOMS; room++) {
    if (room->taken && room->run == run) return room;
    if (!room->taken && !empty) empty = room;
  }
  return empty;
}

static Room* enter(int64_t run, int part, const XLA_FFI_CallFrame* frame) {
  for (int looks = 0;; wait_a_little(&looks)) {
    lock();
    Room* room = room_of(run);
    if (room) {
      room->run = run;
      room->taken = 1;
      room->frames[part] = frame;
      atomic_fetch_add_explicit(&room->entered, 1, memory_order_release);
      unlock();
      return room;
    }
    unlock();
  }
}

/* Only when all are done: till then one may be reading what another brought. */
static void leave(Room* room, int parts) {
  unsigned over = atomic_load_explicit(&room->over, memory_order_relaxed);
  lock();
  if (++room->left == parts) {
    room->taken = room->left = 0;
    atomic_store_explicit(&room->entered, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&room->over, 1, memory_order_release);
  }
  unlock();
  for (int looks = 0; atomic_load_explicit(&room->over, memory_order_acquire) == over;) wait_a_little(&looks);
}

static int64_t length(const XLA_FFI_Buffer* buffer) {
  int64_t product = 1;
  for (int64_t axis = 0; axis < buffer->rank; axis++) product *= buffer->dims[axis];
  return product;
}

static const XLA_FFI_Buffer* brought(const XLA_FFI_CallFrame* frame, int64_t place) { return frame->args.args[place]; }

static void take_mean(float* mean, int64_t size, const float* const* of, int parts) {
  const float share = 1.0f / (float)parts; /* as XLA has it: of three the quotient would be another number */
  for (int64_t start = 0; start < size; start += BLOCK) {
    int64_t end = start + BLOCK < size ? start + BLOCK : size;
    for (int64_t i = start; i < end; i++) mean[i] = of[0][i] + of[1][i];
    for (int part = 2; part < parts; part++)
      for (int64_t i = start; i < end; i++) mean[i] += of[part][i];
    for (int64_t i = start; i < end; i++) mean[i] *= share;
  }
}

/* Whether all came for the same thing, and with float32. Two exchanges of which neither waits for the other could be met in another order on each device. */
static int agree(const Room* room, const XLA_FFI_CallFrame* frame, int parts) {
  for (int part = 0; part < parts; part++) {
    const XLA_FFI_CallFrame* other = room->frames[part];
    if (other->args.size != frame->args.size) return 0;
    for (int64_t place = 0; place < frame->args.size; place++) {
      const XLA_FFI_Buffer *mine = brought(frame, place), *theirs = brought(other, place);
      if (mine->dtype != XLA_FFI_DataType_F32 || theirs->dtype != mine->dtype || length(theirs) != length(mine)) return 0;
    }
  }
  return 1;
}

static XLA_FFI_Error* refuse(const XLA_FFI_CallFrame* frame, const char* why) {
  XLA_FFI_Error_Create_Args args = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, NULL, why, XLA_FFI_Error_Code_INTERNAL};
  return frame->api->XLA_FFI_Error_Create(&args);
}

/* Attributes come in the order of their names: `means`, how many of the arrays are averaged, the others being handed on as they are; `parts`. */
static int64_t attribute(const XLA_FFI_CallFrame* frame, int place) {
  return *(const int64_t*)((const XLA_FFI_Scalar*)frame->attrs.attrs[place])->value;
}

static XLA_FFI_Error* meet(XLA_FFI_CallFrame* frame) {
  int64_t means = attribute(frame, 0);
  int parts = (int)attribute(frame, 1);
  XLA_FFI_RunId_Get_Args run = {XLA_FFI_RunId_Get_Args_STRUCT_SIZE, NULL, frame->ctx, 0};
  XLA_FFI_DeviceOrdinal_Get_Args device = {XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE, NULL, frame->ctx, 0};
  XLA_FFI_Error* error = frame->api->XLA_FFI_RunId_Get(&run);
  if (!error) error = frame->api->XLA_FFI_DeviceOrdinal_Get(&device);
  if (error) return error;
  if (parts < 2 || parts > MOST_PARTS || device.device_ordinal >= parts) return refuse(frame, "dualac: 2 to 64 devices exchange, all there are");

  Room* room = enter(run.run_id, device.device_ordinal, frame);
  for (int looks = 0; atomic_load_explicit(&room->entered, memory_order_acquire) < parts;) wait_a_little(&looks);
  int agreed = agree(room, frame, parts);
  for (int64_t place = 0; agreed && place < frame->args.size; place++) {
    const XLA_FFI_Buffer* mine = brought(frame, place);
    float* result = ((XLA_FFI_Buffer*)frame->rets.rets[place])->data;
    if (place < means) {
      const float* of[MOST_PARTS];
      for (int part = 0; part < parts; part++) of[part] = brought(room->frames[part], place)->data;
      take_mean(result, length(mine), of, parts);
    } else {
      memcpy(result, mine->data, length(mine) * sizeof(float));
    }
  }
  leave(room, parts);
  return agreed ? NULL : refuse(frame, "dualac: the devices of a run met for different things");
}

/* What XLA calls: once to hear for which version this was made, then in each exchange. */
XLA_FFI_Error* dualac_mean(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Extension_Base* asked = frame->extension_start;
  if (asked && asked->type == XLA_FFI_Extension_Metadata) {
    XLA_FFI_Metadata* told = ((XLA_FFI_Metadata_Extension*)asked)->metadata;
    told->api_version.major_version = XLA_FFI_API_MAJOR;
    told->api_version.minor_version = XLA_FFI_API_MINOR;
    told->traits = 0;
    told->state_type_id.type_id = 0;
    return NULL;
  }
  return meet(frame);
}

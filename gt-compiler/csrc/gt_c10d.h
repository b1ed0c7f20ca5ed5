// Lanes between two processes, by libtorch's c10d with Gloo, as plain C.
//
// Guarantees: every function but the last three gives a status, 0 if all went well, and
// gt_c10d_message() holds the reason for the thread until its next call; no C++ exception leaves a
// function; each wait ends after its limit at the latest. A lane is used by one thread at a time,
// but gt_c10d_abort() may be called on any thread while the lane is there.
//
// It does not encrypt, and it does not know who is at the other end.
#ifndef GT_C10D_H
#define GT_C10D_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gt_c10d_lane gt_c10d_lane;
typedef struct gt_c10d_work gt_c10d_work;

// Where the two ends leave their addresses for each other. It is called on the thread that opens
// the lane, while it opens it. The functions must not throw or unwind.
typedef struct {
  void* context;
  // Keeps a value of this end. Gives 0, or something else if it refuses.
  int32_t (*set)(
      void* context, const char* key, size_t key_len, const uint8_t* value, size_t len);
  // Waits for a value of either end and copies it to `out`, which has `room` bytes. Gives the
  // number of its bytes, or a negative number if it does not come.
  int64_t (*get)(void* context, const char* key, size_t key_len, uint8_t* out, size_t room);
} gt_c10d_store;

// Opens the end number `rank` (0 or 1) of a lane, at an address or name of this machine. Waits for
// the other end.
int32_t gt_c10d_open(
    const char* host, int32_t rank, int64_t limit_ms, const gt_c10d_store* store,
    gt_c10d_lane** out);

// Begin to send or to receive bytes, which stay where they are until the work is given up. What is
// received under a tag is what was sent under it.
int32_t gt_c10d_send(
    gt_c10d_lane* lane, const uint8_t* bytes, size_t len, int32_t tag, gt_c10d_work** out);
int32_t gt_c10d_receive(
    gt_c10d_lane* lane, uint8_t* bytes, size_t len, int32_t tag, gt_c10d_work** out);

// Waits until a work is done. If the limit is over, the lane is of no more use.
int32_t gt_c10d_wait(gt_c10d_lane* lane, gt_c10d_work* work, int64_t limit_ms);

// Gives up a work, done or not. From then on nothing touches its bytes.
void gt_c10d_give_up(gt_c10d_work* work);

// Ends the wait of another thread, and all later ones, with an error.
void gt_c10d_abort(gt_c10d_lane* lane);

// Closes an end. All its works have been given up.
void gt_c10d_close(gt_c10d_lane* lane);

const char* gt_c10d_message(void);

#ifdef __cplusplus
}
#endif

#endif

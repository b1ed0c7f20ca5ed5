// See gt_c10d.h.
#include "gt_c10d.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <ATen/ops/from_blob.h>

#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

using c10::intrusive_ptr;
using c10d::ProcessGroupGloo;
using std::chrono::milliseconds;

// The most bytes of a value in the store. Gloo's are addresses, of less than 200 bytes.
constexpr size_t MAX_VALUE = 4096;

thread_local std::string message;

int32_t fail(const char* what) noexcept {
  try {
    message = what;
  } catch (...) {
    message.clear();
  }
  return 1;
}

template <class F>
int32_t guarded(F&& call) noexcept {
  try {
    call();
    return 0;
  } catch (const c10::Error& error) {
    return fail(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return fail(error.what());
  } catch (...) {
    return fail("an exception of an unknown kind");
  }
}

// The caller's store, for as long as the lane is being opened. Gloo needs no more of it than this.
class Addresses : public c10d::Store {
 public:
  Addresses(const gt_c10d_store& store, milliseconds limit) : Store(limit), store_(store) {}

  void end() {
    ended_ = true;
  }

  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    check_open();
    const auto refused =
        store_.set(store_.context, key.data(), key.size(), value.data(), value.size());
    TORCH_CHECK(refused == 0, "an address was refused");
  }

  std::vector<uint8_t> get(const std::string& key) override {
    check_open();
    std::vector<uint8_t> value(MAX_VALUE);
    const auto len =
        store_.get(store_.context, key.data(), key.size(), value.data(), value.size());
    TORCH_CHECK(len >= 0, "the other end did not say its address");
    TORCH_CHECK(static_cast<size_t>(len) <= MAX_VALUE, "an address is too long");
    value.resize(static_cast<size_t>(len));
    return value;
  }

  void wait(const std::vector<std::string>& keys) override {
    for (const auto& key : keys) get(key);
  }

  void wait(const std::vector<std::string>& keys, const milliseconds&) override {
    wait(keys);
  }

  // An end knows both keys, so it asks for the values and never for what else there may be.
  intrusive_ptr<Store> clone() override {
    TORCH_CHECK(false, "the store of a lane has no copies");
  }

  int64_t add(const std::string&, int64_t) override {
    TORCH_CHECK(false, "the store of a lane does not count");
  }

  bool deleteKey(const std::string&) override {
    return false;
  }

  bool check(const std::vector<std::string>&) override {
    return false;
  }

  int64_t getNumKeys() override {
    return 0;
  }

 private:
  void check_open() const {
    TORCH_CHECK(!ended_, "the store of a lane is used after it was opened");
  }

  const gt_c10d_store store_;
  bool ended_ = false;
};

std::vector<at::Tensor> tensor_of(const uint8_t* bytes, size_t len) {
  // Whoever sends does not write, but a tensor has no constant memory.
  auto* data = const_cast<uint8_t*>(bytes);
  return {at::from_blob(data, {static_cast<int64_t>(len)}, at::kByte)};
}

}  // namespace

struct gt_c10d_lane {
  std::unique_ptr<ProcessGroupGloo> group;
  int32_t other;
  std::mutex mutex;
  bool aborted = false;
  // What a thread waits for.
  intrusive_ptr<c10d::Work> awaited;
};

struct gt_c10d_work {
  intrusive_ptr<c10d::Work> work;
};

extern "C" {

int32_t gt_c10d_open(
    const char* host, int32_t rank, int64_t limit_ms, const gt_c10d_store* store,
    gt_c10d_lane** out) {
  return guarded([&] {
    const milliseconds limit(limit_ms);
    auto options = ProcessGroupGloo::Options::create(limit);
    options->devices.push_back(ProcessGroupGloo::createDeviceForHostname(host));
    // It works on collectives, of which there are none.
    options->threads = 1;
    auto addresses = c10::make_intrusive<Addresses>(*store, limit);
    auto lane = std::make_unique<gt_c10d_lane>();
    lane->group = std::make_unique<ProcessGroupGloo>(addresses, rank, 2, options);
    lane->other = 1 - rank;
    addresses->end();
    *out = lane.release();
  });
}

int32_t gt_c10d_send(
    gt_c10d_lane* lane, const uint8_t* bytes, size_t len, int32_t tag, gt_c10d_work** out) {
  return guarded([&] {
    auto tensors = tensor_of(bytes, len);
    *out = new gt_c10d_work{lane->group->send(tensors, lane->other, tag)};
  });
}

int32_t gt_c10d_receive(
    gt_c10d_lane* lane, uint8_t* bytes, size_t len, int32_t tag, gt_c10d_work** out) {
  return guarded([&] {
    auto tensors = tensor_of(bytes, len);
    *out = new gt_c10d_work{lane->group->recv(tensors, lane->other, tag)};
  });
}

int32_t gt_c10d_wait(gt_c10d_lane* lane, gt_c10d_work* work, int64_t limit_ms) {
  return guarded([&] {
    {
      const std::lock_guard<std::mutex> lock(lane->mutex);
      TORCH_CHECK(!lane->aborted, "the lane was given up");
      lane->awaited = work->work;
    }
    std::exception_ptr error;
    bool done = false;
    try {
      done = work->work->wait(milliseconds(limit_ms));
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard<std::mutex> lock(lane->mutex);
    lane->awaited.reset();
    if (error) std::rethrow_exception(error);
    TORCH_CHECK(done && !lane->aborted, "the lane was given up");
  });
}

void gt_c10d_give_up(gt_c10d_work* work) {
  guarded([&] { delete work; });
}

void gt_c10d_abort(gt_c10d_lane* lane) {
  guarded([&] {
    const std::lock_guard<std::mutex> lock(lane->mutex);
    lane->aborted = true;
    if (lane->awaited) lane->awaited->abort();
  });
}

void gt_c10d_close(gt_c10d_lane* lane) {
  guarded([&] { delete lane; });
}

const char* gt_c10d_message(void) {
  return message.c_str();
}

}  // extern "C"

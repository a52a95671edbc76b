// The C interface: no exception leaves it, and whatever goes wrong has a text.
#include "abi.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>

#include "model.h"
#include "pack.h"
#include "step.h"

namespace native {

// A model and the step that runs on it.
struct Device final : Steps {
  Device(const Shape& shape, const Isa& isa) : model(shape, isa), step(std::make_shared<Step>(model)) {}

  // A step that no thread is in: one that came too late may still look at the last.
  Step& next() override {
    if (step.use_count() > 1) step = std::make_shared<Step>(model);
    std::atomic_thread_fence(std::memory_order_acquire);
    return *step;
  }

  Model model;
  std::shared_ptr<Step> step;
};

}  // namespace native

using namespace native;

NATIVE_API int32_t native_abi() { return NATIVE_ABI; }

// The name of the instruction set that this name stands for, "" for the best. Null: not here.
NATIVE_API const char* native_isa(const char* name) {
  const Isa* isa = find_isa(name);
  return isa ? isa->name : nullptr;
}

NATIVE_API int32_t native_built(const char* name) { return is_built(name); }

// Null, with a text in `error`, where memory or threads do not suffice.
NATIVE_API Device* native_create(const Shape* shape, const char* isa, char* error, int32_t size) {
  try {
    const Isa* set = find_isa(isa);
    if (!set) {
      std::snprintf(error, size, "no instruction set %s on this machine", isa);
      return nullptr;
    }
    return new Device(*shape, *set);
  } catch (const std::exception& fault) {
    std::snprintf(error, size, "%s", fault.what());
    return nullptr;
  }
}

NATIVE_API void native_destroy(Device* device) { delete device; }

NATIVE_API const char* native_error(Device* device) { return device->model.error.c_str(); }

template <typename Work>
static int32_t guarded(Device* device, const Work& work) {
  try {
    device->model.error.clear();
    return work() ? 0 : 1;
  } catch (const std::exception& fault) {
    device->model.error = fault.what();
    return 1;
  }
}

// Zeroed memory for a matrix. group: inputs that share a scale of the activations.
NATIVE_API int32_t native_linear(Device* device, int32_t layer, Part part, Format format,
                                 int32_t group) {
  return guarded(device, [&] {
    device->model.allocate_linear(layer, part, format, group);
    return true;
  });
}

static bool refused(Device* device, int32_t type) {
  device->model.error = "type " + std::to_string(type) + ": expected a type of weights";
  return false;
}

// Rows of a matrix, as a file stores them, from output `first` on. half: see pack_rows.
NATIVE_API int32_t native_pack(Device* device, int32_t layer, Part part, int32_t first, int32_t half,
                               int32_t type, int32_t rows, int32_t inputs, const uint8_t* data,
                               const int32_t* order) {
  return guarded(device, [&] {
    if (!is_stored(type)) return refused(device, type);
    StoredRows stored = {(Stored)type, rows, inputs, data, order};
    Linear& linear = device->model.weights(layer, part).linear;
    if (pack_rows(linear, stored, first, half, device->model.pool)) return true;
    device->model.error = "type " + std::to_string(type) + ": expected weights of four bits";
    return false;
  });
}

static Buffer<float>& vector_of(Model& model, int32_t layer, Vector which) {
  switch (which) {
    case Vector::attn_norm:
      return model.layers[layer].attn_norm;
    case Vector::ffn_norm:
      return model.layers[layer].ffn_norm;
    case Vector::q_norm:
      return model.layers[layer].q_norm;
    case Vector::k_norm:
      return model.layers[layer].k_norm;
    case Vector::qkv_bias:
      return model.layers[layer].qkv.bias;
    case Vector::o_bias:
      return model.layers[layer].o.bias;
    default:
      return model.norm;
  }
}

// Numbers [first, first + count) of a vector. Matrices come before their biases.
NATIVE_API int32_t native_vector(Device* device, int32_t layer, Vector which, int32_t first,
                                 int32_t count, const float* data) {
  return guarded(device, [&] {
    Buffer<float>& vector = vector_of(device->model, layer, which);
    bool bias = which == Vector::qkv_bias || which == Vector::o_bias;
    if (bias && !vector) {
      Part part = which == Vector::qkv_bias ? Part::qkv : Part::o;
      Linear& linear = device->model.weights(layer, part).linear;
      vector.allocate(linear.outputs);
      linear.bias = vector.get();
    }
    std::memcpy(vector.get() + first, data, sizeof(float) * (size_t)count);
    return true;
  });
}

// All rows [vocab, hidden] of the embedding, kept as they are stored; zeroed memory for them where data
// is null. Without them rows are read out of the head.
NATIVE_API int32_t native_embedding(Device* device, int32_t type, const uint8_t* data) {
  return guarded(device, [&] {
    if (!is_stored(type)) return refused(device, type);
    Model& model = device->model;
    size_t bytes = row_bytes((Stored)type, model.shape.hidden) * (size_t)model.shape.vocab;
    model.embedding_type = (Stored)type;
    model.embedding.allocate(bytes);
    if (data) std::memcpy(model.embedding.get(), data, bytes);
    return true;
  });
}

static size_t held_bytes(Model& model, int32_t layer, Part part) {
  if (part == Part::embedding)
    return model.embedding ? row_bytes(model.embedding_type, model.shape.hidden) * (size_t)model.shape.vocab : 0;
  Linear& linear = model.weights(layer, part).linear;
  return linear.panel_bytes * (linear.outputs / kPanel);
}

static Buffer<uint8_t>& held_buffer(Model& model, int32_t layer, Part part) {
  return part == Part::embedding ? model.embedding : model.weights(layer, part).panels;
}

NATIVE_API int32_t native_layout() { return kLayout; }

// Where the packed bytes of a matrix lie. Returns how many there are.
NATIVE_API uint64_t native_held(Device* device, int32_t layer, Part part, const uint8_t** data) {
  *data = held_buffer(device->model, layer, part).get();
  return held_bytes(device->model, layer, part);
}

// The same bytes in memory of the caller's, at a multiple of 64, which outlives the device and of which
// 4096 bytes behind them may be fetched.
NATIVE_API void native_lend(Device* device, int32_t layer, Part part, uint8_t* data) {
  held_buffer(device->model, layer, part).borrow(data, held_bytes(device->model, layer, part));
  if (part != Part::embedding) device->model.weights(layer, part).linear.panels = data;
}

// Tells bytes from others that damage made of them, at the speed of memory: eight lanes of a
// multiplicative hash. seed: of what came before.
NATIVE_API uint64_t native_checksum(uint64_t seed, const uint8_t* data, uint64_t bytes) {
  constexpr uint64_t prime = 0x9e3779b97f4a7c15;
  uint64_t lanes[8];
  for (int i = 0; i < 8; ++i) lanes[i] = seed + i;
  for (uint64_t at = 0; at < bytes; at += 64) {
    uint64_t words[8] = {};
    std::memcpy(words, data + at, bytes - at < 64 ? bytes - at : 64);
    for (int i = 0; i < 8; ++i) {
      uint64_t mixed = lanes[i] ^ words[i];
      lanes[i] = (mixed << 29 | mixed >> 35) * prime;
    }
  }
  uint64_t all = bytes;
  for (uint64_t lane : lanes) all = ((all ^ lane) << 29 | (all ^ lane) >> 35) * prime;
  return all;
}

// Rows as a file stores them in float32.
NATIVE_API int32_t native_dequantise(int32_t type, int32_t rows, int32_t inputs, const uint8_t* data,
                                     float* out) {
  if (!is_stored(type)) return 1;
  for (int i = 0; i < rows; ++i)
    dequantise((Stored)type, data + (size_t)i * row_bytes((Stored)type, inputs), inputs,
               out + (size_t)i * inputs);
  return 0;
}

// Every value of the cache at once: tests ask what a value that nobody wrote does.
NATIVE_API void native_fill_cache(Device* device, float value) {
  uint16_t half;
  to_bf16(&value, 1, &half);
  uint16_t* cache = reinterpret_cast<uint16_t*>(device->model.cache.get());
  size_t bytes = device->model.layer_stride * device->model.shape.layers;
  for (size_t i = 0; i < bytes / sizeof(half); ++i) cache[i] = half;
}

// Forget every slot.
NATIVE_API void native_reset(Device* device) { device->model.slots.reset(); }

NATIVE_API int32_t native_open(Device* device, int32_t slot, const int32_t* ids, int32_t count,
                               int32_t cached, const Choice* choice) {
  return guarded(device, [&] {
    device->model.slots.open(slot, ids, count, cached, *choice);
    return true;
  });
}

// Entries of block tables.
NATIVE_API int32_t native_blocks(Device* device, int32_t count, const int32_t* slots,
                                 const int32_t* columns, const int32_t* blocks) {
  return guarded(device, [&] {
    Slots& all = device->model.slots;
    for (int i = 0; i < count; ++i) {
      all.check(slots[i]);
      bool good = blocks[i] >= 0 && blocks[i] < device->model.shape.blocks && columns[i] >= 0 &&
                  columns[i] < all.columns();
      if (!good) {
        device->model.error = "block " + std::to_string(blocks[i]) + " in column " +
                              std::to_string(columns[i]) + ": there is no such";
        return false;
      }
      all.set_block(slots[i], columns[i], blocks[i]);
    }
    return true;
  });
}

NATIVE_API int32_t native_step(Device* device, const Rows* rows, const Chosen* chosen) {
  int layers = device->model.shape.layers;
  int32_t failed = guarded(device, [&] { return device->next().run(*rows, *chosen, layers); });
  device->model.tell_begun();
  return failed;
}

// The next step, or the draft in front of it, writes to an eventfd once its first layer is done; one that is
// refused or has no tokens does when it returns.
NATIVE_API void native_announce(Device* device, int32_t fd) { device->model.begun = fd; }

// Let the first `layers` layers, with the head, guess `counts` tokens of each slot, [rows] each, that a
// step then verifies. Each slot has room for them and lacks the keys of its last token alone.
NATIVE_API int32_t native_draft(Device* device, int32_t rows, const int32_t* slots, const int32_t* counts,
                                int32_t layers) {
  return guarded(device, [&] { return draft(device->model, *device, rows, slots, counts, layers); });
}

// Threads that computed the last step, 0 before the first.
NATIVE_API int32_t native_computing(Device* device) { return device->model.computing; }

// Logits behind every token of the rows, [tokens, vocab]; nothing is chosen.
NATIVE_API int32_t native_logits(Device* device, const Rows* rows, float* logits) {
  return guarded(device, [&] { return device->next().run(*rows, logits); });
}

NATIVE_API int32_t native_score(Device* device, const Scores* scores) {
  return guarded(device, [&] { return score(device->model, *scores); });
}

// Seconds that the first thread spent in each phase since the last call; counting begins with it.
NATIVE_API void native_profile(Device* device, double* seconds) {
  Profile& profile = device->model.profile;
  std::memcpy(seconds, profile.seconds, sizeof(profile.seconds));
  profile = Profile();
  profile.timed = true;
}

// Bytes of keys and values of all blocks.
NATIVE_API uint64_t native_cache_bytes(Device* device) {
  return (uint64_t)device->model.layer_stride * device->model.shape.layers;
}

// Bytes of packed weights.
NATIVE_API uint64_t native_weight_bytes(Device* device) {
  Model& model = device->model;
  uint64_t bytes = model.head.panels.bytes() + model.embedding.bytes();
  for (Layer& layer : model.layers)
    for (Weights* weights : {&layer.qkv, &layer.o, &layer.gate_up, &layer.down})
      bytes += weights->panels.bytes();
  return bytes;
}

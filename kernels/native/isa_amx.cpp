// The vectors are those of AVX-512; what is multiplied in tiles is not.
#define NATIVE_MATRIX
#include "vec_avx512.h"
// The lanes come first: everything below is written in them.
#include "isa.h"

namespace native {
// A namespace for each set: its functions can be told apart in the machine code.
namespace amx {
#include "math.inc.h"
#include "rows.inc.h"
#include "tiles.inc.h"
#include "scores.inc.h"
#include "spin.inc.h"
#include "matrix.inc.h"
#include "linear.inc.h"
#include "attention.inc.h"
#include "choose.inc.h"

constexpr Isa kTable = {
    "amx", attention_scratch, choose_scratch, linear_panels, multiply,
    finish_panels, quantise, rms_norm, rope, attend, merge, choose, report, read_memory,
    multiply_add,
    likelihood, verdict, residual_seed,
};

}  // namespace amx

extern const Isa kAmx = amx::kTable;

}  // namespace native

#include "vec_avx2.h"
// The lanes come first: everything below is written in them.
#include "isa.h"

namespace native {
// A namespace for each set: its functions can be told apart in the machine code.
namespace avx2 {
#include "math.inc.h"
#include "rows.inc.h"
#include "tiles.inc.h"
#include "scores.inc.h"
#include "spin.inc.h"
#include "plain.inc.h"
#include "linear.inc.h"
#include "attention.inc.h"
#include "choose.inc.h"

constexpr Isa kTable = {
    "avx2", attention_scratch, choose_scratch, linear_panels, multiply,
    finish_panels, quantise, rms_norm, rope, attend, merge, choose, report, read_memory,
    multiply_add,
    likelihood, verdict, residual_seed,
};

}  // namespace avx2

extern const Isa kAvx2 = avx2::kTable;

}  // namespace native

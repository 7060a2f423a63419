// What PTX says of numbers where C or this CPU say otherwise: `docs/reference/ptx-rules.md` lists each rule beside its test.
//
// Each rule is computed three times where it can be: with operands from memory, with constants that the compiler may fold,
// and by PTX itself. Trap: built with -use_fast_math too (FLUSH), which makes zeros of denormals of `float`.
#include "suite.h"

#include "rules/assembly.h"
#include "rules/bits.h"
#include "rules/carry.h"
#include "rules/halves.h"
#include "rules/reals.h"
#include "rules/shared.h"
#include "rules/video.h"

#include "rules/programs.h"

#include "run.h"

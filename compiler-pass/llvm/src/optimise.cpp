// Runs a pipeline with two corrections in front of the loop vectoriser: one of an error, one of demands that do not pay.
//
// Trap: raw/module.rs declares the function by hand; a change of a parameter must be made on both sides.
//
// The error, in LLVM 20 to 22 (llvm/llvm-project issue 191382, mended in LLVM 23 by pull request 191498): the vectoriser
// asks at run time that a number that counts the turns does not wrap. It drops the question for a narrow number, such as
// the five bits of `(x - 1) & 31`, where it asks the same of a wider one, and takes memory at such an index to be in one
// row. So where numbers of several widths count in one loop, all but the widest are made unknown to it here.
#include "analyses.h"
#include "llvm-c/Error.h"
#include "llvm-c/TargetMachine.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Support/CBindingWrapping.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Utils/LoopUtils.h"

using namespace llvm;

namespace {
// Bits of the widest number in `expression` that changes with the turns of `loop` and is extended, as if it might wrap;
// 0: none. Numbers of 64 bits are no part of an address in this way.
unsigned extended_bits(const SCEV *expression, const Loop *loop) {
  unsigned widest = 0;
  const auto counts = [&](const SCEV *part) {
    const auto *counting = dyn_cast<SCEVAddRecExpr>(part);
    return counting && counting->getLoop() == loop;
  };
  SCEVExprContains(expression, [&](const SCEV *part) {
    if (!isa<SCEVZeroExtendExpr, SCEVSignExtendExpr>(part))
      return false;
    const SCEV *narrow = cast<SCEVCastExpr>(part)->getOperand();
    const unsigned bits = narrow->getType()->getScalarSizeInBits();
    if (bits > widest && bits < 64 && SCEVExprContains(narrow, counts))
      widest = bits;
    return false;
  });
  return widest;
}

struct HideNarrowCounters : PassInfoMixin<HideNarrowCounters> {
  PreservedAnalyses run(Function &function, FunctionAnalysisManager &manager) {
    auto &loops = manager.getResult<LoopAnalysis>(function);
    if (loops.empty())
      return PreservedAnalyses::all();
    auto &evolution = manager.getResult<ScalarEvolutionAnalysis>(function);
    bool changed = false;
    for (Loop *loop : loops.getLoopsInPreorder())
      if (loop->isInnermost())
        changed |= hide(*loop, evolution);
    if (!changed)
      return PreservedAnalyses::all();
    PreservedAnalyses preserved;
    preserved.preserveSet<CFGAnalyses>();
    return preserved;
  }

private:
  static bool hide(Loop &loop, ScalarEvolution &evolution) {
    DenseMap<const SCEV *, unsigned> known;
    const auto bits = [&](Value *value) -> unsigned {
      if (!evolution.isSCEVable(value->getType()))
        return 0;
      const SCEV *expression = evolution.getSCEV(value);
      const auto [entry, is_new] = known.try_emplace(expression, 0);
      if (is_new)
        entry->second = extended_bits(expression, &loop);
      return entry->second;
    };
    unsigned widest = 0;
    // Where a narrow number is extended: its own bits, not those of its operands.
    SmallVector<std::pair<Instruction *, unsigned>> extensions;
    for (BasicBlock *block : loop.blocks())
      for (Instruction &instruction : *block) {
        const unsigned own = bits(&instruction);
        widest = std::max(widest, own);
        const auto is_of_operand = [&](Value *operand) { return isa<Instruction>(operand) && bits(operand) != 0; };
        if (own != 0 && !isa<PHINode>(instruction) && none_of(instruction.operand_values(), is_of_operand))
          extensions.push_back({&instruction, own});
      }
    bool changed = false;
    for (auto [instruction, own] : extensions) {
      if (own == widest)
        continue;
      auto *hidden = new FreezeInst(instruction, "", std::next(instruction->getIterator()));
      instruction->replaceUsesWithIf(hidden, [&](Use &use) { return use.getUser() != hidden; });
      changed = true;
    }
    return changed;
  }
};

// Takes the demand for a number of lanes off loops where it does not pay: each access at scattered addresses becomes as
// many accesses as there are lanes, which takes longer to compile and to run than a loop. Accesses in a row, or of all
// lanes to one address, are single ones.
struct FreeWidths : PassInfoMixin<FreeWidths> {
  PreservedAnalyses run(Function &function, FunctionAnalysisManager &manager) {
    auto &loops = manager.getResult<LoopAnalysis>(function);
    if (loops.empty())
      return PreservedAnalyses::all();
    auto &evolution = manager.getResult<ScalarEvolutionAnalysis>(function);
    for (Loop *loop : loops.getLoopsInPreorder())
      if (getOptionalIntLoopAttribute(loop, WIDTH) && scattered(*loop, evolution) > SCATTERED_MAX)
        loop->setLoopID(makePostTransformationMetadata(function.getContext(), loop->getLoopID(), DEMANDS, {}));
    return PreservedAnalyses::all();
  }

private:
  static constexpr const char *WIDTH = "llvm.loop.vectorize.width";
  static constexpr StringRef DEMANDS[] = {"llvm.loop.vectorize.", "llvm.loop.interleave."};
  // CUB's sorts of a block are faster with 2 and with 8 than with all; a transpose by shuffles is slower with 4.
  static constexpr unsigned SCATTERED_MAX = 8;

  static unsigned scattered(Loop &loop, ScalarEvolution &evolution) {
    // As the vectoriser asks: an index that may wrap is taken not to.
    PredicatedScalarEvolution predicated(evolution, loop);
    unsigned count = 0;
    for (BasicBlock *block : loop.blocks())
      for (Instruction &instruction : *block) {
        Value *address = getLoadStorePointerOperand(&instruction);
        if (!address || loop.isLoopInvariant(address))
          continue;
        const SCEVAddRecExpr *row = predicated.getAsAddRec(address);
        const auto *step = row ? dyn_cast<SCEVConstant>(row->getStepRecurrence(evolution)) : nullptr;
        const auto bytes = instruction.getDataLayout().getTypeStoreSize(getLoadStoreType(&instruction));
        count += !step || step->getAPInt() != bytes.getFixedValue();
      }
    return count;
  }
};
} // namespace

extern "C" LLVMErrorRef eager_optimise(LLVMModuleRef module, const char *passes, LLVMTargetMachineRef machine, bool slp) {
  PipelineTuningOptions tuning;
  tuning.SLPVectorization = slp;
  PassBuilder builder(reinterpret_cast<TargetMachine *>(machine), tuning);
  builder.registerVectorizerStartEPCallback(
      [](FunctionPassManager &manager, OptimizationLevel) {
        manager.addPass(HideNarrowCounters());
        manager.addPass(FreeWidths());
      });
  Analyses analyses(builder);
  ModulePassManager manager;
  if (Error error = builder.parsePassPipeline(manager, passes))
    return wrap(std::move(error));
  manager.run(*unwrap(module), analyses.modules);
  return LLVMErrorSuccess;
}

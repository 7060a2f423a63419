// What LLVM offers in C++ only and the handles need.
//
// Trap: raw/cxx.rs declares these functions by hand; a change of a parameter must be made on both sides.
#include "llvm-c/Core.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Operator.h"
#include "llvm/IR/ReplaceConstant.h"
#include "llvm/Support/MemoryBufferRef.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/Local.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace llvm;

extern "C" void eager_emit_error(LLVMModuleRef module, const char *message) {
  unwrap(module)->getContext().emitError(message);
}

extern "C" void eager_append_constructor(LLVMModuleRef module, LLVMValueRef function) {
  appendToGlobalCtors(*unwrap(module), unwrap<Function>(function), 65535);
}

extern "C" void eager_append_used(LLVMModuleRef module, LLVMValueRef global) {
  appendToUsed(*unwrap(module), {unwrap<GlobalValue>(global)});
}

extern "C" void eager_embed(LLVMModuleRef module, const char *bytes, size_t length, const char *section) {
  embedBufferInModule(*unwrap(module), MemoryBufferRef(StringRef(bytes, length), "device code"), section);
}

// A landing pad cannot stand behind other code, so an edge into one gets a landing pad of its own. Null: not possible.
extern "C" LLVMBasicBlockRef eager_split_edge(LLVMBasicBlockRef from, LLVMBasicBlockRef to) {
  BasicBlock *target = unwrap(to);
  if (!target->isLandingPad())
    return wrap(SplitEdge(unwrap(from), target));
  SmallVector<BasicBlock *, 2> parts;
  SplitLandingPadPredecessors(target, {unwrap(from)}, ".eager", ".others", parts);
  return parts.empty() ? nullptr : wrap(parts.front());
}

extern "C" void eager_invoke(LLVMValueRef call, LLVMBasicBlockRef unwind) {
  changeToInvokeAndSplitBasicBlock(cast<CallInst>(unwrap(call)), unwrap(unwind));
}

extern "C" bool eager_is_library_function(LLVMModuleRef module, const char *name) {
  TargetLibraryInfoImpl library(Triple(unwrap(module)->getTargetTriple()));
  LibFunc function;
  return library.getLibFunc(StringRef(name), function);
}

extern "C" bool eager_inline_call(LLVMValueRef value) {
  auto *call = dyn_cast<CallBase>(unwrap(value));
  InlineFunctionInfo info;
  return call && InlineFunction(*call, info).isSuccess();
}

// Constants in functions that are computed from the global become instructions.
extern "C" void eager_expand_constants(LLVMValueRef global) {
  convertUsersOfConstantsToInstructions({unwrap<Constant>(global)});
}

extern "C" bool eager_constant_offset(LLVMModuleRef module, LLVMValueRef gep, int64_t *offset) {
  auto *op = dyn_cast<GEPOperator>(unwrap(gep));
  APInt bytes(64, 0);
  if (!op || !op->accumulateConstantOffset(unwrap(module)->getDataLayout(), bytes))
    return false;
  *offset = bytes.getSExtValue();
  return true;
}

// Optimisation remarks, which LLVM offers in C++ only: clang prints them under -Rpass=eager and -Rpass-missed=eager,
// opt and lld under -pass-remarks=eager, and -fsave-optimization-record keeps them.
//
// Trap: a remark needs a debug location of the module to have a column, so the one of an instruction on that line is
// looked up; without location tracking (the driver asks clang for it) the remark has no place.
#include "llvm-c/Core.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

#include <cstdlib>
#include <cstring>

using namespace llvm;

static const DILocation *find(Function &function, StringRef file, unsigned line) {
  const DILocation *found = nullptr;
  for (Instruction &instruction : instructions(function)) {
    const DILocation *here = instruction.getDebugLoc().get();
    if (here && here->getLine() == line && here->getFilename() == file &&
        (!found || here->getColumn() < found->getColumn()))
      found = here;
  }
  return found;
}

// The place may lie in another function, which allocates for this one.
static DiagnosticLocation location(Function &function, StringRef file, unsigned line) {
  if (const DILocation *found = find(function, file, line))
    return DiagnosticLocation(DebugLoc(found));
  for (Function &other : *function.getParent())
    if (const DILocation *found = find(other, file, line))
      return DiagnosticLocation(DebugLoc(found));
  return DiagnosticLocation(function.getSubprogram());
}

extern "C" void eager_emit_remark(LLVMModuleRef module, const char *symbol, const char *file, unsigned line,
                                  bool missed, const char *name, const char *message) {
  Function *function = unwrap(module)->getFunction(symbol);
  if (!function || function->isDeclaration())
    return;
  LLVMContext &context = function->getContext();
  if (!context.getLLVMRemarkStreamer() && !context.getDiagHandlerPtr()->isAnyRemarkEnabled("eager"))
    return;
  DiagnosticLocation place = location(*function, file, line);
  const BasicBlock *region = &function->getEntryBlock();
  if (missed)
    context.diagnose(OptimizationRemarkMissed("eager", name, place, region) << message);
  else
    context.diagnose(OptimizationRemark("eager", name, place, region) << message);
}

extern "C" void eager_emit_warning(LLVMModuleRef module, const char *message) {
  unwrap(module)->getContext().diagnose(DiagnosticInfoGeneric(Twine(message), DS_Warning));
}

// The name as the user wrote it, to be freed by the caller with free().
extern "C" char *eager_demangle(const char *symbol) { return strdup(demangle(symbol).c_str()); }

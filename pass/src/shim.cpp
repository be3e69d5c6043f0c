// What LLVM's C interface lacks: registering a pass, splitting a block, and a few questions to its C++ classes.
// Everything else is in Rust.
#include "llvm-c/Core.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace llvm;

extern "C" bool bf_pass_run(LLVMModuleRef);

namespace {
struct Instrument : PassInfoMixin<Instrument> {
  // Also on functions marked optnone: at -O0 that is all of them.
  static bool isRequired() { return true; }
  PreservedAnalyses run(Module &M, ModuleAnalysisManager &) {
    return bf_pass_run(wrap(&M)) ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }
};
} // namespace

extern "C" {
void bf_shim_register(PassBuilder &PB) {
#if LLVM_VERSION_MAJOR >= 20
  PB.registerOptimizerLastEPCallback(
      [](ModulePassManager &MPM, OptimizationLevel, ThinOrFullLTOPhase) { MPM.addPass(Instrument()); });
#else
  PB.registerOptimizerLastEPCallback([](ModulePassManager &MPM, OptimizationLevel) { MPM.addPass(Instrument()); });
#endif
  // For `opt -passes=bf`.
  PB.registerPipelineParsingCallback([](StringRef Name, ModulePassManager &MPM, ArrayRef<PassBuilder::PipelineElement>) {
    if (Name != "bf")
      return false;
    MPM.addPass(Instrument());
    return true;
  });
}

// Splits the block before an instruction and runs a new block in between if the condition holds, which is taken to be
// rare. Returns the new block's terminator.
LLVMValueRef bf_shim_split(LLVMValueRef Condition, LLVMValueRef Before) {
  auto *I = unwrap<Instruction>(Before);
  MDNode *Rare = MDBuilder(I->getContext()).createBranchWeights(1, 1 << 20);
  return wrap(SplitBlockAndInsertIfThen(unwrap(Condition), I->getIterator(), false, Rare));
}

void bf_shim_add_constructor(LLVMModuleRef M, LLVMValueRef Function, int Priority) {
  appendToGlobalCtors(*unwrap(M), unwrap<llvm::Function>(Function), Priority);
}

void bf_shim_keep(LLVMModuleRef M, LLVMValueRef Global) { appendToUsed(*unwrap(M), {unwrap<GlobalValue>(Global)}); }

void bf_shim_error(LLVMModuleRef M, const char *Message) { unwrap(M)->getContext().emitError(Message); }

// The name as people write it; free with LLVMDisposeMessage.
char *bf_shim_demangle(const char *Name) { return LLVMCreateMessage(demangle(Name).c_str()); }

// Whether this is, by name and type, a function of the C library that LLVM knows.
bool bf_shim_is_library_function(LLVMValueRef Function) {
  auto *F = unwrap<llvm::Function>(Function);
  LibFunc Known;
  return TargetLibraryInfoImpl(Triple(F->getParent()->getTargetTriple())).getLibFunc(*F, Known);
}

// Whether the address may only be loaded from and stored to, never written down.
bool bf_shim_is_swift_error(LLVMValueRef Address) { return unwrap(Address)->isSwiftError(); }

// Bytes that a load or store of the type touches; times the machine's vscale if Scalable is set.
uint64_t bf_shim_store_size(LLVMModuleRef M, LLVMTypeRef Type, bool *Scalable) {
  TypeSize Size = unwrap(M)->getDataLayout().getTypeStoreSize(unwrap(Type));
  *Scalable = Size.isScalable();
  return Size.getKnownMinValue();
}
}

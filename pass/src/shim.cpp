// What LLVM's C interface lacks: registering a pass, splitting a block, and a few questions to its C++ classes.
// Everything else is in Rust.
#include "llvm-c/Core.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/Transforms/Coroutines/CoroCleanup.h"
#include "llvm/Transforms/Coroutines/CoroSplit.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/LoopSimplify.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"
#include "llvm/Transforms/Utils/ScalarEvolutionExpander.h"

using namespace llvm;

extern "C" bool bf_pass_run(LLVMModuleRef, FunctionAnalysisManager *);
extern "C" void bf_pass_note(LLVMModuleRef);

namespace {
struct Instrument : PassInfoMixin<Instrument> {
  // Also on functions marked optnone: at -O0 that is all of them.
  static bool isRequired() { return true; }
  PreservedAnalyses run(Module &M, ModuleAnalysisManager &MAM) {
    auto &FAM = MAM.getResult<FunctionAnalysisManagerModuleProxy>(M).getManager();
    return bf_pass_run(wrap(&M), &FAM) ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }
};

// Coroutines that are still whole cannot be instrumented: ThinLTO leaves them so until it links.
struct Split : PassInfoMixin<Split> {
  static bool isRequired() { return true; }
  PreservedAnalyses run(Module &M, ModuleAnalysisManager &MAM) {
    if (none_of(M, [](const Function &F) { return F.isPresplitCoroutine(); }))
      return PreservedAnalyses::all();
    ModulePassManager MPM;
    MPM.addPass(createModuleToPostOrderCGSCCPassAdaptor(CoroSplitPass(/*OptimizeFrame=*/true)));
    MPM.addPass(CoroCleanupPass());
    return MPM.run(M, MAM);
  }
};

void instrument(ModulePassManager &MPM) {
  MPM.addPass(Split());
  MPM.addPass(Instrument());
}

// Comes before everything else: what inlining makes impossible to see is noted.
struct Note : PassInfoMixin<Note> {
  static bool isRequired() { return true; }
  PreservedAnalyses run(Module &M, ModuleAnalysisManager &) {
    bf_pass_note(wrap(&M));
    return PreservedAnalyses::all();
  }
};

// The value that V, computed in a loop without branches, has in the first iteration, computed before the loop; null if that
// cannot be done without a risk.
Value *inFirstIteration(Value *V, Loop &L, Instruction *Before, DenseMap<Value *, Value *> &Known) {
  auto *I = dyn_cast<Instruction>(V);
  if (!I || !L.contains(I))
    return V;
  if (auto *Phi = dyn_cast<PHINode>(I))
    return Phi->getParent() == L.getHeader() ? Phi->getIncomingValueForBlock(L.getLoopPreheader()) : nullptr;
  if (Value *Done = Known.lookup(I))
    return Done;
  SmallVector<Value *, 4> Operands;
  for (Value *Operand : I->operands()) {
    Operands.push_back(inFirstIteration(Operand, L, Before, Known));
    if (!Operands.back())
      return nullptr;
  }
  if (I->mayReadFromMemory() || !isSafeToSpeculativelyExecute(I))
    return nullptr;
  Instruction *Copy = I->clone();
  for (unsigned N = 0; N < Operands.size(); N++)
    Copy->setOperand(N, Operands[N]);
  Copy->insertBefore(Before->getIterator());
  Copy->setDebugLoc(Before->getDebugLoc());
  return Known[I] = Copy;
}
} // namespace

extern "C" {
void bf_shim_register(PassBuilder &PB) {
#if LLVM_VERSION_MAJOR >= 20
  PB.registerOptimizerLastEPCallback(
      [](ModulePassManager &MPM, OptimizationLevel, ThinOrFullLTOPhase) { instrument(MPM); });
#else
  PB.registerOptimizerLastEPCallback([](ModulePassManager &MPM, OptimizationLevel) { instrument(MPM); });
#endif
  PB.registerPipelineStartEPCallback([](ModulePassManager &MPM, OptimizationLevel) { MPM.addPass(Note()); });
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

// Whether an address lies a constant number of bytes behind another that is known at the same time.
bool bf_shim_distance(FunctionAnalysisManager *FAM, LLVMValueRef Function, LLVMValueRef From, LLVMValueRef To,
                      int64_t *Bytes) {
  auto &SE = FAM->getResult<ScalarEvolutionAnalysis>(*unwrap<llvm::Function>(Function));
  if (unwrap(From)->getType() != unwrap(To)->getType())
    return false;
  const SCEV *Behind = SE.getSCEV(unwrap(To)), *Start = SE.getSCEV(unwrap(From));
#if LLVM_VERSION_MAJOR >= 20
  std::optional<APInt> Difference = SE.computeConstantDifference(Behind, Start);
#else
  // The same, found in less simple cases than its own `computeConstantDifference` finds it.
  std::optional<APInt> Difference;
  if (auto *Constant = dyn_cast<SCEVConstant>(SE.getMinusSCEV(Behind, Start)))
    Difference = Constant->getAPInt();
#endif
  if (!Difference || !Difference->isSignedIntN(64))
    return false;
  *Bytes = Difference->getSExtValue();
  return true;
}

// The value that an address is a constant number of bytes behind.
LLVMValueRef bf_shim_base(LLVMModuleRef M, LLVMValueRef Address, int64_t *Bytes) {
  auto &Layout = unwrap(M)->getDataLayout();
  APInt Offset(Layout.getIndexTypeSizeInBits(unwrap(Address)->getType()), 0);
  Value *Base = unwrap(Address)->stripAndAccumulateConstantOffsets(Layout, Offset, true);
  *Bytes = Offset.getSExtValue();
  return wrap(Base);
}

// Whether an instruction always goes on to the next one, and nobody but this thread can tell when it does what it does.
bool bf_shim_is_private(LLVMValueRef Value) {
  auto *I = unwrap<Instruction>(Value);
  return !I->isAtomic() && !I->isVolatile() && isGuaranteedToTransferExecutionToSuccessor(I);
}

// Whether an instruction always goes on to the next one.
bool bf_shim_goes_on(LLVMValueRef Value) {
  return isGuaranteedToTransferExecutionToSuccessor(unwrap<Instruction>(Value));
}

// Whether it is a volatile store of a word that others may see: so programs older than atomic operations, and some since, let
// other threads go on with all that was done before it.
bool bf_shim_is_volatile(LLVMValueRef Value) {
  auto *Store = dyn_cast<StoreInst>(unwrap<Instruction>(Value));
  return Store && Store->isVolatile() && Store->getValueOperand()->getType()->isIntOrPtrTy() &&
         !isa<AllocaInst>(getUnderlyingObject(Store->getPointerOperand()));
}

// Whether an instruction lets threads that read what it writes, or what comes after it, go on with all that was done before it.
bool bf_shim_releases(LLVMValueRef Value) {
  auto *I = unwrap<Instruction>(Value);
  if (auto *Store = dyn_cast<StoreInst>(I))
    return isReleaseOrStronger(Store->getOrdering());
  if (auto *Update = dyn_cast<AtomicRMWInst>(I))
    return isReleaseOrStronger(Update->getOrdering());
  if (auto *Exchange = dyn_cast<AtomicCmpXchgInst>(I))
    return isReleaseOrStronger(Exchange->getSuccessOrdering());
  auto *Fence = dyn_cast<FenceInst>(I);
  return Fence && isReleaseOrStronger(Fence->getOrdering()) && Fence->getSyncScopeID() != SyncScope::SingleThread;
}

// Adds a constraint to the inline assembly that is called.
void bf_shim_constrain(LLVMValueRef Value, const char *Constraint) {
  auto *Call = unwrap<CallBase>(Value);
  auto *Asm = cast<InlineAsm>(Call->getCalledOperand());
  std::string Constraints(Asm->getConstraintString());
  Constraints += (Constraints.empty() ? "" : ",") + std::string(Constraint);
  Call->setCalledOperand(InlineAsm::get(Asm->getFunctionType(), Asm->getAsmString(), Constraints, Asm->hasSideEffects(),
                                        Asm->isAlignStack(), Asm->getDialect(), Asm->canThrow()));
}

// The name of an instruction's opcode, as the language reference has it.
const char *bf_shim_opcode(LLVMValueRef Value) { return unwrap<Instruction>(Value)->getOpcodeName(); }

// Bits of a type; times the machine's vscale if it is scalable.
uint64_t bf_shim_bits(LLVMModuleRef M, LLVMTypeRef Type) {
  return unwrap(M)->getDataLayout().getTypeSizeInBits(unwrap(Type)).getKnownMinValue();
}

// Gives each call that may become a jump a return of its own, in place of one that it shares with others: as the code
// generator would do, unless it finds counting in between.
void bf_shim_share_no_returns(FunctionAnalysisManager *FAM, LLVMValueRef Function) {
  auto &F = *unwrap<llvm::Function>(Function);
  bool Changed = false;
  for (BasicBlock &B : make_early_inc_range(F)) {
    auto *Return = dyn_cast<ReturnInst>(B.getTerminator());
    if (!Return || &*B.getFirstNonPHIIt() != Return)
      continue;
    for (BasicBlock *Before : SmallVector<BasicBlock *>(predecessors(&B))) {
      auto *Branch = dyn_cast<BranchInst>(Before->getTerminator());
      auto *Call = Branch && Branch->isUnconditional() ? dyn_cast_or_null<CallInst>(Branch->getPrevNode()) : nullptr;
      if (!Call || !Call->isTailCall())
        continue;
      Value *Result = Return->getReturnValue();
      if (auto *Phi = dyn_cast_or_null<PHINode>(Result); Phi && Phi->getParent() == &B)
        Result = Phi->getIncomingValueForBlock(Before);
      if (Result && Result != Call)
        continue;
      FoldReturnIntoUncondBranch(Return, &B, Before);
      Changed = true;
    }
    if (Changed && pred_empty(&B) && !B.isEntryBlock())
      DeleteDeadBlock(&B);
  }
  if (Changed)
    FAM->invalidate(F, PreservedAnalyses::none());
}

// The blocks of the loop that begins with one, if each goes on to the next, and one at most leaves the loop. Returns how many, 0
// if there are others or more than there is room for; More: so many, the first ones, come once more than those behind them.
unsigned bf_shim_chain(FunctionAnalysisManager *FAM, LLVMBasicBlockRef Block, LLVMBasicBlockRef *Blocks, unsigned Room,
                       unsigned *More) {
  BasicBlock *Header = unwrap(Block), *B = Header;
  Loop *L = FAM->getResult<LoopAnalysis>(*Header->getParent()).getLoopFor(Header);
  if (!L || L->getHeader() != Header || L->getNumBlocks() > Room)
    return 0;
  unsigned N = 0, Exits = 0;
  *More = 0;
  do {
    BasicBlock *Next = nullptr;
    bool Leaves = false;
    for (BasicBlock *Successor : successors(B)) {
      if (!L->contains(Successor))
        Leaves = true;
      else if (Next && Next != Successor)
        return 0;
      else
        Next = Successor;
    }
    if (!Next || N == Room || (Next != Header && !Next->getUniquePredecessor()))
      return 0;
    Blocks[N++] = wrap(B);
    Exits += Leaves;
    if (Leaves && Next != Header)
      *More = N;
    B = Next;
  } while (B != Header);
  return N == L->getNumBlocks() && Exits <= 1 ? N : 0;
}

// How often a loop goes back that ends where something which moves by a constant is equal to something: LLVM does not say, because it
// does not know that it ever is. If it is not, the loop does not end: a power of two passes by each time around, and in 64 bits once
// around is for ever.
static const SCEV *untilEqual(const Loop &L, ScalarEvolution &SE) {
  BasicBlock *Latch = L.getLoopLatch();
  auto *Compared = L.getExitingBlock() == Latch ? L.getLatchCmpInst() : nullptr;
  if (!Compared || !Compared->isEquality())
    return SE.getCouldNotCompute();
  bool LeavesIfTrue = !L.contains(Latch->getTerminator()->getSuccessor(0));
  if (LeavesIfTrue != (Compared->getPredicate() == ICmpInst::ICMP_EQ))
    return SE.getCouldNotCompute();
  const SCEV *Moves = SE.getSCEV(Compared->getOperand(0)), *End = SE.getSCEV(Compared->getOperand(1));
  if (!isa<SCEVAddRecExpr>(Moves))
    std::swap(Moves, End);
  auto *Moving = dyn_cast<SCEVAddRecExpr>(Moves);
  auto *Step = Moving && Moving->isAffine() ? dyn_cast<SCEVConstant>(Moving->getStepRecurrence(SE)) : nullptr;
  if (!Step || Moving->getLoop() != &L || !SE.isLoopInvariant(End, &L) || End->getType() != Moving->getType())
    return SE.getCouldNotCompute();
  APInt By = Step->getAPInt().abs();
  if (!By.isPowerOf2() && By.getBitWidth() < 64)
    return SE.getCouldNotCompute();
  bool Down = Step->getAPInt().isNegative();
  const SCEV *Way = Down ? SE.getMinusSCEV(Moving->getStart(), End) : SE.getMinusSCEV(End, Moving->getStart());
  if (isa<SCEVCouldNotCompute>(Way))
    return Way;
  return SE.getUDivExpr(Way, SE.getConstant(By));
}

// If the number of iterations of the loop that begins with a block, which goes from block to block, and the way the addresses
// move are known before it starts: computes the number, the addresses in the first iteration (in place of the addresses) and
// the strides there. With Lasts the loop is left before its last iteration ends: the number is that of whole ones, of which there
// is one at least, and Lasts the addresses in that last one. Returns the instruction after which the loop starts, or null.
LLVMValueRef bf_shim_stream(FunctionAnalysisManager *FAM, LLVMBasicBlockRef Block, unsigned N, LLVMValueRef *Addresses,
                            LLVMValueRef *Strides, LLVMValueRef *Lasts, LLVMValueRef *Iterations) {
  BasicBlock *Header = unwrap(Block);
  Function &F = *Header->getParent();
  auto &LI = FAM->getResult<LoopAnalysis>(F);
  auto &DT = FAM->getResult<DominatorTreeAnalysis>(F);
  auto &SE = FAM->getResult<ScalarEvolutionAnalysis>(F);
  Loop *L = LI.getLoopFor(Header);
  if (!L || L->getHeader() != Header)
    return nullptr;
  if (!L->getLoopPreheader()) {
    if (!InsertPreheaderForLoop(L, &DT, &LI, nullptr, false))
      return nullptr;
    SE.forgetLoop(L);
  }
  Instruction *Before = L->getLoopPreheader()->getTerminator();
#if LLVM_VERSION_MAJOR >= 22
  SCEVExpander Expander(SE, "bf", false);
#else
  SCEVExpander Expander(SE, F.getParent()->getDataLayout(), "bf", false);
#endif
  Type *Word = Type::getInt64Ty(F.getContext());
  const SCEV *Taken = SE.getBackedgeTakenCount(L);
  if (isa<SCEVCouldNotCompute>(Taken))
    Taken = untilEqual(*L, SE);
  if (isa<SCEVCouldNotCompute>(Taken) || SE.getTypeSizeInBits(Taken->getType()) > 64)
    return nullptr;
  auto *Known = dyn_cast<SCEVConstant>(Taken);
  if (Lasts && (!Known || Known->isZero()))
    return nullptr;
  SmallVector<const SCEV *> Expressions{Lasts ? SE.getTruncateOrZeroExtend(Taken, Word)
                                              : SE.getTripCountFromExitCount(Taken, Word, L)};
  for (unsigned I = 0; I < N; I++) {
    const SCEV *Address = SE.getSCEV(unwrap(Addresses[I])), *Stride = SE.getZero(Word);
    if (!SE.isLoopInvariant(Address, L)) {
      auto *Moving = dyn_cast<SCEVAddRecExpr>(Address);
      if (!Moving || Moving->getLoop() != L || !Moving->isAffine())
        return nullptr;
      Stride = Moving->getStepRecurrence(SE);
    }
    Expressions.push_back(Stride);
  }
  for (const SCEV *Expression : Expressions)
    if (!Expander.isSafeToExpandAt(Expression, Before))
      return nullptr;
  DenseMap<Value *, Value *> Copies;
  for (unsigned I = 0; I < N; I++) {
    Value *First = inFirstIteration(unwrap(Addresses[I]), *L, Before, Copies);
    if (!First)
      return nullptr;
    Addresses[I] = wrap(First);
  }
  *Iterations = wrap(Expander.expandCodeFor(Expressions[0], Word, Before->getIterator()));
  for (unsigned I = 0; I < N; I++)
    Strides[I] = wrap(Expander.expandCodeFor(Expressions[1 + I], Word, Before->getIterator()));
  IRBuilder<> Builder(Before);
  for (unsigned I = 0; Lasts && I < N; I++) {
    Value *Moved = Builder.CreateMul(unwrap(*Iterations), unwrap(Strides[I]));
    Lasts[I] = wrap(Builder.CreatePtrAdd(unwrap(Addresses[I]), Moved));
  }
  return wrap(Before);
}

// The innermost loop that a block is in; null if it is in none.
void *bf_shim_loop(FunctionAnalysisManager *FAM, LLVMBasicBlockRef Block) {
  BasicBlock *B = unwrap(Block);
  return FAM->getResult<LoopAnalysis>(*B->getParent()).getLoopFor(B);
}

void *bf_shim_loop_parent(void *Inner) { return static_cast<Loop *>(Inner)->getParentLoop(); }

// Where the source says that the loop begins; null if that is not known.
LLVMMetadataRef bf_shim_loop_start(void *L) { return wrap(static_cast<Loop *>(L)->getStartLoc().get()); }

// The function that a location is written in.
LLVMMetadataRef bf_shim_subprogram(LLVMMetadataRef Location) {
  return wrap(unwrap<DILocation>(Location)->getScope()->getSubprogram());
}

// The name of a function, as the linker or as people know it; not terminated.
const char *bf_shim_subprogram_name(LLVMMetadataRef Subprogram, bool Linkage, size_t *Length) {
  auto *S = unwrap<DISubprogram>(Subprogram);
  StringRef Name = Linkage ? S->getLinkageName() : S->getName();
  *Length = Name.size();
  return Name.data();
}

// The instruction in front of which something can be done once a call has returned; null if there is no such place.
LLVMValueRef bf_shim_after(LLVMValueRef Call) {
  auto *C = unwrap<CallBase>(Call);
  if (auto *I = dyn_cast<InvokeInst>(C)) {
    BasicBlock *Next = I->getNormalDest();
    return Next->getSinglePredecessor() ? wrap(&*Next->getFirstInsertionPt()) : nullptr;
  }
  if (C->isMustTailCall() || !isa<CallInst>(C))
    return nullptr;
  return wrap(C->getNextNode());
}

// The same, with a block of its own where there is no such place because other edges lead there too. Null behind calls that
// must be the last of their function.
LLVMValueRef bf_shim_behind(LLVMValueRef Call) {
  auto *I = dyn_cast<InvokeInst>(unwrap(Call));
  if (!I || I->getNormalDest()->getSinglePredecessor())
    return bf_shim_after(Call);
  return wrap(&*SplitEdge(I->getParent(), I->getNormalDest())->getFirstInsertionPt());
}
}

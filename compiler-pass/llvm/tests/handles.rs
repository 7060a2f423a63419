//! Handles for values of every kind, and what they refuse.

use eager_llvm::{Module, Opcode, OwnContext, Type, TypeKind, Value};

const COROUTINE: &str = r#"
declare token @llvm.coro.id(i32, ptr, ptr, ptr)
declare ptr @llvm.coro.begin(token, ptr)
declare double @llvm.experimental.constrained.fadd.f64(double, double, metadata, metadata)
define ptr @begin(ptr %memory, double %x) presplitcoroutine strictfp {
entry:
  %id = call token @llvm.coro.id(i32 0, ptr null, ptr null, ptr null)
  %sum = call double @llvm.experimental.constrained.fadd.f64(double %x, double %x, metadata !"round.dynamic", metadata !"fpexcept.strict") strictfp
  br label %next
next:
  %frame = call ptr @llvm.coro.begin(token %id, ptr %memory)
  ret ptr %frame
}
"#;

fn instruction<'m>(module: &'m Module<'m>, function: &str, index: usize) -> Value<'m> {
    module.function(function).expect("the text defines it").instructions()[index]
}

#[test]
fn operands_may_be_tokens_metadata_and_blocks() {
    let own = OwnContext::new();
    let module = own.handle().parse_text(COROUTINE).expect("valid text");
    let kinds = |index| {
        let operands = instruction(&module, "begin", index).operands();
        operands.into_iter().map(|operand| operand.ty().kind()).collect::<Vec<_>>()
    };
    assert_eq!(kinds(1)[2..4], [TypeKind::LLVMMetadataTypeKind; 2]);
    assert_eq!(kinds(2), [TypeKind::LLVMLabelTypeKind]);
    assert_eq!(kinds(3)[0], TypeKind::LLVMTokenTypeKind);
}

#[test]
fn a_call_may_pass_a_token_on() {
    let own = OwnContext::new();
    let context = own.handle();
    let module = context.parse_text(COROUTINE).expect("valid text");
    let begin = instruction(&module, "begin", 3);
    let builder = context.builder();
    let again = builder.before(begin).call(begin.called_value(), &begin.call_arguments());
    begin.replace_uses_with(again);
    begin.erase();
    module.verify().expect("the new call replaces the old one");
    assert_eq!(instruction(&module, "begin", 3), again);
}

#[test]
fn messages_are_collected_after_a_link_too() {
    let own = OwnContext::new();
    let context = own.handle();
    let parse = |text| context.parse_text(text).expect("valid text");
    let module = parse("define i32 @f() { ret i32 1 }");
    module.link(parse("define i32 @g() { ret i32 2 }")).expect("no name is defined twice");
    assert_eq!(context.messages(), "");
    assert!(module.link(parse("define i32 @f() { ret i32 3 }")).is_err());
    assert!(context.messages().contains("symbol multiply defined"), "{}", context.messages());
}

#[test]
#[should_panic(expected = "a used instruction cannot be erased")]
fn an_instruction_in_use_is_not_erased() {
    let own = OwnContext::new();
    let module = own.handle().parse_text(COROUTINE).expect("valid text");
    instruction(&module, "begin", 0).erase();
}

#[test]
#[should_panic(expected = "an argument of another type")]
fn a_call_with_an_argument_of_another_type_is_refused() {
    let own = OwnContext::new();
    let context = own.handle();
    let module =
        context.parse_text("declare void @f(i32)\ndefine void @g() { ret void }").expect("valid text");
    let builder = context.builder();
    builder.before(instruction(&module, "g", 0));
    builder.call(module.function("f").expect("declared"), &[context.int_type(64).constant(1)]);
}

#[test]
#[should_panic(expected = "indices of parts that exist")]
fn an_address_of_a_field_that_does_not_exist_is_refused() {
    let own = OwnContext::new();
    let context = own.handle();
    let module = context.parse_text("define void @f(ptr %p) { ret void }").expect("valid text");
    let builder = context.builder();
    builder.before(instruction(&module, "f", 0));
    let i32 = context.int_type(32);
    let pair = context.structure_type(&[i32, i32], false);
    let pointer = module.function("f").expect("defined").params()[0];
    builder.gep(pair, &[pointer, i32.constant(0), i32.constant(2)]);
}

#[test]
fn a_question_for_another_kind_of_value_has_an_answer() {
    let own = OwnContext::new();
    let module = own.handle().parse_text(COROUTINE).expect("valid text");
    let branch = instruction(&module, "begin", 2);
    assert_eq!(branch.opcode(), Some(Opcode::LLVMBr));
    assert!(!branch.is_volatile() && !branch.is_atomic() && branch.incoming().is_empty());
    assert_eq!((branch.call_target(), branch.initializer(), branch.constant_integer()), (None, None, None));
    let function = module.function("begin").expect("defined");
    assert!(function.operands().is_empty() && function.successors().is_empty());
}

#[test]
fn sizes_follow_the_module_s_layout() {
    let own = OwnContext::new();
    let context = own.handle();
    let module = context.parse_text("target datalayout = \"e-p:32:32-i64:64\"").expect("valid text");
    let (pointer, i64) = (context.ptr_type(0), context.int_type(64));
    let ty = context.structure_type(&[pointer, i64, pointer.array(2)], false);
    assert_eq!((module.size_of(pointer), module.size_of(ty), module.offset_of(ty, 1)), (4, 24, 8));
    assert_eq!(module.pointer_offsets(ty), [0, 16, 20]);
    assert!(ty.holds_pointer() && !Type::holds_pointer(i64));
}

#[test]
fn a_switch_knows_the_number_of_each_case() {
    let own = OwnContext::new();
    let text = "define void @f(i32 %x) {
a:
  switch i32 %x, label %b [ i32 7, label %c
                            i32 9, label %b ]
b:
  ret void
c:
  ret void
}";
    let module = own.handle().parse_text(text).expect("valid text");
    let switch = instruction(&module, "f", 0);
    let number = |successor| switch.case_value(successor).and_then(Value::constant_integer);
    assert_eq!([number(0), number(1), number(2)], [None, Some(7), Some(9)]);
    assert_eq!(switch.successors()[0], switch.successors()[2]);
}

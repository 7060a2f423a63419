//! CUDA's headers, as a C++ compiler reads them.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Defines `print`, which prints a function's name, as the header's macros rename it, and the sizes of its arguments.
const PRELUDE: &str = r#"
#include <cuda_runtime_api.h>
#include <cstddef>
#include <cstdio>
#define NAME_OF(function) #function
#define PRINT(function) print(NAME_OF(function), (decltype(&function))nullptr)
template <class R, class... A> void print(const char *name, R (*)(A...)) {
  const size_t sizes[] = {0, sizeof(A)...};
  printf("%s", name);
  for (size_t i = 1; i <= sizeof...(A); ++i) printf(" %zu", sizes[i]);
  puts("");
}
"#;

/// A function of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// Name of the symbol that its calls use.
    pub symbol: String,
    pub argument_bytes: Vec<usize>,
}

/// Headers of an installed CUDA tree.
#[derive(Debug, Clone)]
pub struct Headers {
    include: PathBuf,
    /// Read as with `--default-stream per-thread`.
    pub per_thread: bool,
}

impl Headers {
    /// Headers of a tree in `.toolchain`; `None`, with a message, if it is not installed.
    pub fn of(tree: &str) -> Option<Headers> {
        let include =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.toolchain").join(tree).join("include");
        let is_there = include.join("cuda_runtime_api.h").exists();
        if !is_there {
            eprintln!("SKIPPED: nothing is compared with {tree}: {} is missing", include.display());
        }
        is_there.then_some(Headers { include, per_thread: false })
    }

    /// Declarations of the functions, in the order of the names.
    pub fn declared<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Vec<Declared> {
        let (mut declarations, mut statements) = (String::new(), String::new());
        for name in names {
            if name.starts_with("__cuda") {
                declarations += &self.internal(name);
            }
            let _ = writeln!(statements, "PRINT({name});");
        }
        let lines = self.printed(&declarations, &statements);
        let declared = |line: &String| {
            let mut words = line.split(' ');
            let symbol = words.next().unwrap_or_default().to_owned();
            Declared { symbol, argument_bytes: words.map(|word| word.parse().expect("a size")).collect() }
        };
        lines.iter().map(declared).collect()
    }

    /// Declaration of a function that only compiled code calls. Its header accepts no compiler but NVIDIA's, so the
    /// declaration is cut out of it, without the type of the result.
    fn internal(&self, name: &str) -> String {
        for header in ["crt/host_runtime.h", "crt/device_functions.h"] {
            let text = std::fs::read_to_string(self.include.join(header)).expect("CUDA's header");
            if let Some((_, after)) = text.split_once(&format!("CUDARTAPI {name}("))
                && let Some((arguments, _)) = after.split_once(';')
            {
                return format!("extern \"C\" void {name}({arguments};\n");
            }
        }
        panic!("no header declares {name}");
    }

    /// Compiles and runs a program with these declarations and statements; returns its lines.
    pub fn printed(&self, declarations: &str, statements: &str) -> Vec<String> {
        let folder = tempfile::tempdir().expect("folder");
        let [source, program] = ["ask.cpp", "ask"].map(|name| folder.path().join(name));
        let text = format!("{PRELUDE}{declarations}int main() {{\n{statements}}}\n");
        std::fs::write(&source, text).expect("write");
        let mut compile = Command::new("c++");
        compile.args(["-std=c++14", "-Wno-invalid-offsetof", "-Wno-deprecated-declarations"]);
        if self.per_thread {
            compile.arg("-DCUDA_API_PER_THREAD_DEFAULT_STREAM");
        }
        compile.arg("-I").arg(&self.include).arg(&source).arg("-o").arg(&program);
        let compiled = compile.output().expect("c++");
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        let output = Command::new(&program).output().expect("run");
        String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
    }
}

// SPDX-License-Identifier: BSD-2-Clause
//! Finds homefree and says how to link it. No crates; Python or pkg-config is asked where it lies.
//!
//! For the crates that depend on this one, Cargo hands on as environment variables of their build
//! scripts:
//!
//! - `DEP_HOMEFREE_LINK_ARG`: one linker argument by which a module finds the heap when it is loaded
//! - `DEP_HOMEFREE_INCLUDE`: the directory of the C headers, if the installation has them
//! - `DEP_HOMEFREE_LIBRARY`: the directory of the installed library

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

const SONAME: &str = "libhomefree.so.1";
const SHIM: &str = "libhomefree_shim.a";

/// What a module's wheel carries for machines without homefree (see the guide "publishing").
const MISSING: &str = "homefree.needs";

/// What tells where homefree lies: one line each for the library's directory, the headers' and the
/// stub's; the last two may be empty. Nothing is imported, since a broken installation has a place too.
const ASK_PYTHON: &str = "
import importlib.util, os, sys
if '' in sys.path:
    sys.path.remove('')
spec = importlib.util.find_spec('homefree')
if spec is None or spec.origin is None:
    sys.exit(3)
path = os.path.join(os.path.dirname(spec.origin), '_paths.py')
spec = importlib.util.spec_from_file_location('_homefree_paths', path)
paths = importlib.util.module_from_spec(spec)
spec.loader.exec_module(paths)
for name in ('LIBRARY', 'INCLUDE', 'MISSING'):
    value = getattr(paths, name)
    print(value and os.path.normpath(os.path.join(os.path.dirname(path), value)))
";

struct Found {
    library: PathBuf,
    include: Option<PathBuf>,
    missing: Option<PathBuf>,
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for name in [
        "HOMEFREE_LIB_DIR",
        "CXXSTDLIB",
        "PYO3_PYTHON",
        "PYTHON_SYS_EXECUTABLE",
        "VIRTUAL_ENV",
        "PYTHONPATH",
        "PATH",
        "PKG_CONFIG",
        "PKG_CONFIG_PATH",
    ] {
        println!("cargo:rerun-if-env-changed={}", name);
    }
    if env::var_os("DOCS_RS").is_some() {
        return;
    }
    if let Err(message) = link() {
        eprintln!("homefree: {}", message);
        process::exit(1);
    }
}

fn link() -> Result<(), String> {
    let system = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let libc = env::var("CARGO_CFG_TARGET_ENV").unwrap_or_default();
    if system != "linux" || libc != "gnu" {
        return Err(format!(
            "it works on Linux with glibc, not on {} {}; depend on it for that target alone, with \
             [target.'cfg(all(target_os = \"linux\", target_env = \"gnu\"))'.dependencies]",
            system, libc
        ));
    }

    let found = find()?;
    let heap = existing(&found.library, SONAME)?;
    // In a build directory the shim lies beside the directory of the library.
    let shim = existing(&found.library, SHIM)
        .or_else(|error| existing(&found.library.join("../shim"), SHIM).map_err(|_| error))?;

    // A directory with these files alone: a wheel has the library under its soname only, and Cargo
    // lets `cargo test` and `cargo run` find libraries below the target directory when they start.
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("Cargo sets no OUT_DIR")?);
    let linked = out.join("lib");
    fs::create_dir_all(&linked).map_err(|error| format!("{}: {}", linked.display(), error))?;
    for (file, name) in [(&heap, SONAME), (&heap, "libhomefree.so"), (&shim, SHIM)] {
        point(&linked.join(name), file)?;
        println!("cargo:rerun-if-changed={}", file.display());
    }
    println!("cargo:rustc-link-search=native={}", linked.display());
    println!("cargo:rustc-link-lib=static=homefree_shim");
    println!("cargo:rustc-link-lib=dylib=homefree");
    if env::var_os("CARGO_FEATURE_CXX").is_some() {
        // Here, because it must come after the shim: a linker takes operator new from the first
        // library that has it.
        // With CXXSTDLIB empty, the crate `cc` links none that might come before.
        let runtime = env::var("CXXSTDLIB").unwrap_or_default();
        let runtime = if runtime.is_empty() {
            "stdc++"
        } else {
            &runtime
        };
        println!("cargo:rustc-link-lib=dylib={}", runtime);
    }

    println!("cargo:link_arg={}", link_argument(&found.library)?);
    println!("cargo:library={}", found.library.display());
    if let Some(include) = found.include {
        println!("cargo:include={}", include.display());
    }
    // maturin takes it from here into a wheel.
    if let Some(stub) = found.missing.map(|directory| directory.join(SONAME)) {
        if stub.exists() {
            let directory = out.join(MISSING);
            fs::create_dir_all(&directory)
                .and_then(|()| fs::copy(&stub, directory.join(SONAME)))
                .map_err(|error| format!("{}: {}", directory.display(), error))?;
        }
    }
    Ok(())
}

fn existing(directory: &Path, name: &str) -> Result<PathBuf, String> {
    let path = directory.join(name);
    fs::canonicalize(&path).map_err(|error| {
        format!(
            "{}: {}; install homefree there again, or name the directory that has {} and {} in \
             HOMEFREE_LIB_DIR",
            path.display(),
            error,
            SONAME,
            SHIM
        )
    })
}

/// Makes `link` a symbolic link to `file`, whatever an earlier build left there.
fn point(link: &Path, file: &Path) -> Result<(), String> {
    match fs::remove_file(link) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(format!("{}: {}", link.display(), error));
        }
        _ => {}
    }
    std::os::unix::fs::symlink(file, link).map_err(|error| format!("{}: {}", link.display(), error))
}

/// One linker argument that sets the RUNPATH. A wheel says what it is, relative to the module;
/// otherwise it is the directory of the library, unless the dynamic linker searches it by itself.
fn link_argument(library: &Path) -> Result<String, String> {
    let mut words = vec!["-Wl,--enable-new-dtags".to_string()];
    let response = library.join("homefree/module.rpath");
    if let Ok(text) = fs::read_to_string(&response) {
        for line in text.lines() {
            if let Some(directory) = line.strip_prefix("-rpath=") {
                words.push(format!("-rpath,{}", directory));
            }
        }
    } else if !searched(library) {
        let directory = library.display().to_string();
        if directory.contains([',', '\n']) {
            return Err(format!(
                "the linker takes no directory with a comma in its name: {}",
                directory
            ));
        }
        words.push(format!("-rpath,{}", directory));
    }
    Ok(words.join(","))
}

fn searched(directory: &Path) -> bool {
    let triple = format!(
        "{}-linux-gnu",
        env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default()
    );
    let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_path_buf());
    ["/", "/usr"].iter().any(|root| {
        ["lib", "lib64", &format!("lib/{}", triple)]
            .iter()
            .any(|name| {
                fs::canonicalize(Path::new(root).join(name)).ok() == Some(directory.clone())
            })
    })
}

fn find() -> Result<Found, String> {
    if let Some(directory) = env::var_os("HOMEFREE_LIB_DIR") {
        return Ok(Found {
            library: PathBuf::from(directory),
            include: None,
            missing: None,
        });
    }
    // The Python that PyO3 and maturin build for comes first.
    let mut asked = Vec::new();
    for name in ["PYO3_PYTHON", "PYTHON_SYS_EXECUTABLE"] {
        asked.extend(env::var_os(name));
    }
    if let Some(environment) = env::var_os("VIRTUAL_ENV") {
        asked.push(PathBuf::from(environment).join("bin/python").into());
    }
    asked.extend(["python3".into(), "python".into()]);
    for python in asked {
        if let Some(lines) = lines(Command::new(&python).args(["-c", ASK_PYTHON])) {
            if let [library, include, missing] = lines.as_slice() {
                if !library.is_empty() {
                    return Ok(Found {
                        library: PathBuf::from(library),
                        include: directory(include),
                        missing: directory(missing),
                    });
                }
            }
        }
    }
    let variable = |name: &str| {
        let program = env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into());
        let mut command = Command::new(program);
        command.arg(format!("--variable={}", name)).arg("homefree");
        lines(&mut command).and_then(|lines| directory(lines.first()?))
    };
    if let Some(library) = variable("libdir") {
        return Ok(Found {
            library,
            include: variable("includedir"),
            missing: variable("missing").and_then(|file| file.parent().map(Path::to_path_buf)),
        });
    }
    Err(
        "neither python3 nor pkg-config knows a homefree on this machine; install \
         its wheel into the environment that you build in, name another \
         interpreter in PYO3_PYTHON, or name the directory that has libhomefree.so.1 and \
         libhomefree_shim.a in HOMEFREE_LIB_DIR"
            .to_string(),
    )
}

fn directory(line: &String) -> Option<PathBuf> {
    if line.is_empty() {
        None
    } else {
        Some(PathBuf::from(line))
    }
}

/// The lines that a command prints, or nothing if it cannot be run or fails.
fn lines(command: &mut Command) -> Option<Vec<String>> {
    let output = command.output().ok()?;
    if !output.status.success() {
        return None;
    }
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.lines().map(String::from).collect())
}

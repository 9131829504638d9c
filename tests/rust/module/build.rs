//! What the crate `cc` does for those who have it.

use std::env;
use std::process::Command;

fn run(command: &mut Command) {
    assert!(command.status().expect("it runs").success());
}

fn main() {
    let out = env::var("OUT_DIR").expect("Cargo sets it");
    let include = env::var("DEP_HOMEFREE_INCLUDE").expect("homefree has headers here");
    let library = env::var("DEP_HOMEFREE_LIBRARY").expect("homefree says where it is");
    assert!(std::path::Path::new(&include)
        .join("homefree/homefree.h")
        .exists());
    assert!(std::path::Path::new(&library)
        .join("libhomefree.so.1")
        .exists());
    let object = format!("{}/part.o", out);
    run(Command::new("c++").args(["-O1", "-fPIC", "-c", "part.cc", "-o", &object]));
    run(Command::new("ar").args(["crs", &format!("{}/libpart.a", out), &object]));
    println!("cargo:rerun-if-changed=part.cc");
    println!("cargo:rustc-link-search=native={}", out);
    println!("cargo:rustc-link-lib=static=part");
    if env::var_os("CROSSING_RUNTIME_FIRST").is_some() {
        println!("cargo:rustc-link-lib=dylib=stdc++");
    }
    println!("cargo:rerun-if-env-changed=CROSSING_RUNTIME_FIRST");
    println!(
        "cargo:rustc-cdylib-link-arg={}",
        env::var("DEP_HOMEFREE_LINK_ARG").expect("a RUNPATH")
    );
}

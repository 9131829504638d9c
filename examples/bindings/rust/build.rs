fn main() {
    // The words, in C++. The C++ runtime must come after homefree, which links it.
    cc::Build::new()
        .cpp(true)
        .std("c++20")
        .cpp_link_stdlib(None)
        .file("library/words.cc")
        .compile("words");
    println!("cargo:rerun-if-changed=library");

    // Where the module finds the heap when it is loaded.
    let run_time = std::env::var("DEP_HOMEFREE_LINK_ARG").expect("homefree says how to link it");
    println!("cargo:rustc-cdylib-link-arg={run_time}");
}

// What ESLint looks for in the page's modules. It needs no package: each rule is ESLint's own.
const browser =
  "document window location history navigator performance prompt crypto fetch EventSource URL URLSearchParams FormData AbortController " +
  "matchMedia requestAnimationFrame cancelAnimationFrame setTimeout clearTimeout setInterval clearInterval localStorage " +
  "sessionStorage IntersectionObserver ResizeObserver MutationObserver customElements Node Element HTMLElement Event CustomEvent " +
  "KeyboardEvent Blob CSS confirm console TextDecoderStream structuredClone queueMicrotask getSelection addEventListener removeEventListener";

export default [
  { ignores: ["**/vendor/**"] },
  {
    languageOptions: { globals: Object.fromEntries(browser.split(" ").map((name) => [name, "readonly"])) },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: Object.fromEntries(
      [
        "array-callback-return constructor-super default-case-last eqeqeq for-direction getter-return no-async-promise-executor",
        "no-class-assign no-compare-neg-zero no-cond-assign no-const-assign no-constant-condition no-dupe-args no-dupe-class-members",
        "no-dupe-else-if no-dupe-keys no-duplicate-case no-duplicate-imports no-empty no-empty-pattern no-eval no-ex-assign no-fallthrough",
        "no-func-assign no-implied-eval no-import-assign no-inner-declarations no-irregular-whitespace no-loss-of-precision no-new-func",
        "no-redeclare no-script-url no-self-assign no-self-compare no-setter-return no-shadow-restricted-names no-sparse-arrays no-this-before-super",
        "no-undef no-unreachable no-unsafe-finally no-unsafe-negation no-unsafe-optional-chaining no-unused-vars",
        "no-useless-backreference no-useless-catch no-useless-escape no-var no-with prefer-const require-yield use-isnan valid-typeof",
      ]
        .flatMap((line) => line.split(" "))
        .map((rule) => [rule, "error"]),
    ),
  },
];

// The hash is SHA-256 over the certificate without its field sha256, as canonical JSON (RFC 8785).
const canonical = value => Array.isArray(value) ? "[" + value.map(canonical) + "]"
  : value === null || typeof value !== "object" ? JSON.stringify(value)
  : "{" + Object.keys(value).sort().map(key => JSON.stringify(key) + ":" + canonical(value[key])) + "}";
const { sha256, ...content } = JSON.parse(document.getElementById("certificate").textContent);
crypto.subtle.digest("SHA-256", new TextEncoder().encode(canonical(content))).then(digest => {
  const hash = Array.from(new Uint8Array(digest), byte => byte.toString(16).padStart(2, "0")).join("");
  document.getElementById("seal").textContent = hash === sha256
    ? `Hash: matches (${hash}), recomputed by this browser.` : "Hash: DOES NOT MATCH. The certificate was changed.";
});

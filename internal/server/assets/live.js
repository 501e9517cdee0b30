// Keeps a page live: takes the server's own fragments from its stream, replaces
// the sections that changed, and counts down to what comes next.
(() => {
  "use strict";
  const live = document.getElementById("live");
  const say = document.getElementById("say");
  const link = document.getElementById("link");
  const icon = document.getElementById("icon");
  const stream = live && live.dataset.stream;

  // A section is replaced only when the server's text of it changed, so that
  // what is selected or focused elsewhere stays.
  const texts = new Map();
  const remember = (root) => {
    for (const el of root.children) if (el.id) texts.set(el.id, el.outerHTML);
  };

  // The state that the page came with is not news.
  const first = document.getElementById("state");
  let said = first ? first.dataset.say : "", saidAt = 0, saying = 0;
  const announce = (text) => {
    if (text === said) return;
    clearTimeout(saying);
    saying = setTimeout(() => {
      said = text;
      saidAt = Date.now();
      say.textContent = text;
    }, Math.max(0, saidAt + 5000 - Date.now()));
  };

  const showState = () => {
    const st = document.getElementById("state");
    if (!st) return;
    document.title = st.dataset.title;
    if (icon.getAttribute("href") !== st.dataset.icon) icon.setAttribute("href", st.dataset.icon);
    return st;
  };

  const put = (html) => {
    const next = new DOMParser().parseFromString(html, "text/html").body;
    const focused = document.activeElement && document.activeElement.id;
    const ids = new Set();
    let before = null;
    for (const el of [...next.children]) {
      if (!el.id) continue;
      ids.add(el.id);
      let old = document.getElementById(el.id);
      const text = el.outerHTML;
      if (!old) {
        old = el;
        live.insertBefore(el, before ? before.nextSibling : live.firstChild);
      } else if (texts.get(el.id) !== text) {
        const scrolled = [...old.querySelectorAll(".scroll")].map((s) => s.scrollLeft);
        old.replaceWith(el);
        el.querySelectorAll(".scroll").forEach((s, i) => { s.scrollLeft = scrolled[i] || 0; });
        old = el;
      }
      texts.set(el.id, text);
      before = old;
    }
    for (const el of [...live.children]) if (el.id && !ids.has(el.id)) el.remove();
    if (focused && document.activeElement === document.body) {
      const again = document.getElementById(focused);
      if (again) again.focus({ preventScroll: true });
    }
    const st = showState();
    if (st) announce(st.dataset.say);
    countDown();
  };

  const lasting = (sec) => {
    if (sec <= 0) return "now";
    const h = Math.floor(sec / 3600), m = Math.floor(sec / 60) % 60, s = sec % 60;
    if (h) return "in " + h + " h " + m + " min";
    if (m) return "in " + m + " min " + s + " s";
    return "in " + s + " s";
  };
  const countDown = () => {
    for (const t of document.querySelectorAll("time[data-until]")) {
      const sec = Math.round((Date.parse(t.dateTime) - Date.now()) / 1000);
      let out = t.nextElementSibling;
      if (!out || !out.classList.contains("in")) {
        out = document.createElement("span");
        out.className = "in";
        t.after(out);
      }
      const text = lasting(sec);
      if (out.textContent !== text) out.textContent = text;
    }
  };

  const linked = (text, state) => {
    link.hidden = false;
    link.textContent = text;
    link.className = "link " + state;
  };

  let source, retry = 0;
  const connect = () => {
    clearTimeout(retry);
    source = new EventSource(stream);
    source.addEventListener("open", () => linked("live", "on"));
    source.addEventListener("page", (e) => put(e.data));
    source.addEventListener("end", () => {
      source.close();
      linked("ended", "off");
    });
    source.addEventListener("error", () => {
      linked("reconnecting", "off");
      // The browser comes back by itself, except after an answer that is no
      // stream.
      if (source.readyState === EventSource.CLOSED) retry = setTimeout(connect, 5000);
    });
  };

  for (const b of document.querySelectorAll("button[data-copy]")) {
    if (!navigator.clipboard) continue;
    b.hidden = false;
    b.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(document.getElementById(b.dataset.copy).textContent);
        b.textContent = "Copied";
      } catch {
        b.textContent = "Select it by hand";
      }
      setTimeout(() => { b.textContent = "Copy"; }, 3000);
    });
  }

  if (live) remember(live);
  countDown();
  setInterval(countDown, 1000);
  if (stream && window.EventSource) {
    linked("connecting", "off");
    connect();
    // A stream that a browser keeps in its back-forward cache is dead.
    addEventListener("pagehide", () => source && source.close());
    addEventListener("pageshow", (e) => { if (e.persisted) connect(); });
  }
})();

"use strict";
// Live rows of the delivery log, and the zone of times that a person writes.
(() => {
  let source = null;
  let waiting = null;

  const say = (text, live) => {
    const place = document.querySelector("[data-live-state]");
    if (place && place.textContent !== text) place.textContent = text;
    const dot = document.querySelector("[data-live-dot]");
    if (dot) dot.classList.toggle("on", live);
  };

  const isSelecting = (target) => {
    const selection = getSelection();
    return selection && !selection.isCollapsed && target.contains(selection.anchorNode);
  };

  // The server has escaped every value of the rows. The link with the focus keeps it.
  const show = (target, rows) => {
    if (isSelecting(target)) {
      waiting = rows;
      return;
    }
    waiting = null;
    const focused = target.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    target.innerHTML = rows;
    if (focused) [...target.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
    target.dispatchEvent(new CustomEvent("console:shown", { bubbles: true }));
  };

  const close = () => {
    if (source) source.close();
    source = null;
  };

  const open = () => {
    const target = document.querySelector("[data-live]");
    if (!target || source || document.hidden) return;
    source = new EventSource(target.dataset.live);
    source.addEventListener("rows", (event) => {
      say("Live: new deliveries and attempts appear here.", true);
      show(target, event.data);
    });
    source.addEventListener("ended", () => {
      close();
      target.removeAttribute("data-live");
      say("Live updates have ended. Reload the page to continue.", false);
    });
    source.addEventListener("error", () => {
      const ended = !source || source.readyState === EventSource.CLOSED;
      if (ended) close();
      say(ended ? "Live updates are not available. Reload the page to see the present state." : "Connecting again …", false);
    });
  };

  // The value of the field has no zone, so the form sends the browser's offset at that time with it.
  const setOffset = (field) => {
    const offset = document.querySelector(`[data-offset-of="${field.name}"]`);
    if (!offset) return;
    const moment = field.value ? new Date(field.value) : null;
    offset.value = moment && !Number.isNaN(moment.getTime()) ? String(-moment.getTimezoneOffset()) : "";
  };

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  document.addEventListener("selectionchange", () => {
    const target = document.querySelector("[data-live]");
    if (target && waiting !== null && !isSelecting(target)) show(target, waiting);
  });
  document.addEventListener("change", (event) => {
    if (event.target.type === "datetime-local") setOffset(event.target);
  });
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  open();
})();

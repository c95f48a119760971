"""Write tests/data/templates/constructs.jsonl: small templates and what Jinja makes of them, one JSON object a line:
{"source", "text"} or {"source", "error"}; the variables of all are in vars.json beside it. Run with jinja2 3.1.6 from the
repository's root: python3 tools/template_constructs.py
"""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
import template_vectors                                         # its environment and clock

OUT = "tests/data/templates"
VARS = {'x': 5, 'f': 2.5, 's': 'héllo wörld', 'l': [3, 1, 2], 'd': {'b': 1, 'a': {'k': [1, 2.0, None, True, 'q\'"\n']}}, 'n': None, 't': True, 'rows': [{'n': 'x', 'v': 2}, {'n': 'Y', 'v': 1}, {'n': 'x', 'v': 3}], 'e': '', 'big': 1e+22, 'small': 1e-05, 'messages': [{'role': 'user', 'content': "a'b"}], 'bos_token': '<s>', 'eos_token': '</s>'}
SOURCES = [
    '{{ x }}{{ f }}{{ n }}{{ t }}',
    '{{ s|upper }} {{ s|title }} {{ s|capitalize }}',
    '{{ s[1] }}{{ s[-1] }}{{ s[1:4] }}{{ s[::-1] }}{{ s[::2] }}{{ s[:100] }}{{ s[-3:] }}',
    '{{ l[::-1] }}{{ l[1:] }}{{ l[-1] }}{{ l[5] is defined }}',
    '{{ d }}',
    '{{ d|tojson }}',
    '{{ d|tojson(indent=2) }}',
    "{{ d|tojson(separators=(',',':'), sort_keys=true) }}",
    '{{ s|tojson(ensure_ascii=true) }}',
    '{{ big }} {{ small }} {{ big|tojson }} {{ 1.0 }} {{ 100000000000000000.0 }} {{ 0.1+0.2 }} {{ 1e16 }} {{ 123456789012345680.0 }}',
    '{{ 7//2 }} {{ -7//2 }} {{ 7%3 }} {{ -7%3 }} {{ 7/2 }} {{ 2**10 }} {{ 2**-1 }} {{ -2**2 }} {{ 7.5//2 }} {{ -7.5 % 2 }}',
    "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' in s }} {{ 'h' in s }} {{ 3 in l }} {{ 'b' in d }} {{ 4 not in l }}",
    "{{ x if t else 'no' }}{{ 'a' if not t }}|{{ ('a' if not t) is undefined }}",
    "{{ undefinedvar }}|{{ undefinedvar|default('D') }}|{{ e|default('D') }}|{{ e|default('D', true) }}|{{ n|default('D') }}|{{ d.zz.k }}",
    "{{ d.zz }}|{{ d.a.k[4] }}|{{ d['a']['k'][0] }}|{{ d.get('q', 7) }}|{{ d.get('q') }}|{{ d.items()|list }}|{{ d.keys()|list }}|{{ d.values()|list }}",
    '{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}',
    '{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}',
    '{% for i in [] %}x{% else %}empty{% endfor %}',
    '{% for i in l if i > 1 %}{{ loop.index }}:{{ i }} {% endfor %}',
    '{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}',
    '{% set ns = namespace(a=1) %}{% for i in l %}{% set ns.a = ns.a + i %}{% set x = i %}{% endfor %}{{ ns.a }} {{ x }}',
    '{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, c=9) }}{{ m() }}',
    '{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1,2,z=3) }}',
    '{% macro m(a) %}{{ caller() }}{{ caller(a) if false }}{% endmacro %}{% call m(1) %}body{{ x }}{% endcall %}',
    '{% macro m() %}{{ caller(1, 2) }}{% endmacro %}{% call(a, b) m() %}{{ a }}-{{ b }}{% endcall %}',
    '{% set y %}a{{ x }}b{% endset %}{{ y }}|{% set z | upper | trim %} q {% endset %}{{ z }}',
    '{% filter upper %}abc{{ s }}{% endfilter %}',
    '{% with a=1, b=x %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}',
    'a\n  {% if t %}\n  b\n  {% endif %}\nc\n',
    'a\n  {%- if t -%}\n  b\n  {%- endif -%}\nc\n',
    'a {{- x -}} b {{ x }}\n c',
    '  {%+ if t %}x{% endif +%}\n y',
    '{# comment #}\nx{#- c -#}  y\n',
    '{% raw %}{{ x }}{% if %}{% endraw %}z',
    'a\n  {% raw -%}  \n q {%- endraw %}\nb',
    '{{ \'a\' \'b\' }}{{ "\\n\\t\\x41\\u00e9\\\'" }}',
    "{{ 'a' ~ 1 ~ none ~ true ~ 1.5 ~ [1] }}",
    "{{ ['a','b']|join(', ') }}{{ rows|join('-', attribute='n') }}{{ l|join }}",
    "{{ rows|map(attribute='v')|list }}{{ ['a','b']|map('upper')|join }}",
    "{{ rows|selectattr('n','equalto','x')|map(attribute='v')|list }}{{ rows|rejectattr('v','gt',1)|list }}{{ l|select('odd')|list }}{{ [0,1,'']|select|list }}{{ l|reject('==',1)|list }}",
    "{{ l|sort }}{{ l|sort(reverse=true) }}{{ ['b','A','c']|sort }}{{ ['b','A','c']|sort(case_sensitive=true) }}{{ rows|sort(attribute='v')|map(attribute='v')|list }}{{ d|dictsort }}{{ rows|map(attribute='n')|unique|list }}",
    "{{ rows|groupby('n')|list|length }}{% for g, items in rows|groupby('n') %}{{ g }}{{ items|length }};{% endfor %}",
    "{{ l|sum }}{{ l|min }}{{ l|max }}{{ rows|sum(attribute='v') }}{{ l|first }}{{ l|last }}{{ []|first is undefined }}",
    "{{ '  x '|trim }}|{{ 'xxaxx'|trim('x') }}|{{ ' a b '.split() }}|{{ 'a,b,,c'.split(',') }}|{{ 'a,b,c'.split(',', 1) }}|{{ 'a,b,c'.rsplit(',', 1) }}|{{ 'abc'.replace('b','xx') }}|{{ 'aaa'|replace('a','b',2) }}",
    "{{ 'abc'.startswith('a') }}{{ 'abc'.startswith(('x','a')) }}{{ 'abc'.endswith('bc') }}{{ 'abc'.find('c') }}{{ 'abc'.find('z') }}{{ 'abab'.count('a') }}{{ 'x'.join(['1','2']) }}{{ 'a\\nb\\n'.splitlines() }}",
    "{{ '%s is %d and %.2f %5s|%-5s|%05d %%'|format('a', 3, 2.5, 'r', 'l', 42) }}",
    "{{ '{} {1} {0}'.format(1,2) if false }}{{ '{} {}'.format(1, 'b') }}{{ '{0}{1:>4}{2:.2f}{x!r}'.format(1, 2, 3.14159, x='q') }}{{ '{{}}'.format() }}",
    "{{ 'a %s' % 'b' }}{{ '%s-%s' % (1, 2) }}",
    "{{ 'abc'|length }}{{ s|length }}{{ d|length }}{{ 'abc'|list }}{{ 'cba'|reverse }}{{ l|reverse|list }}{{ 'a b c'|wordcount }}",
    "{{ '42'|int + 1 }}{{ '4.7'|int }}{{ 'x'|int(9) }}{{ '3.5'|float }}{{ 2.567|round(2) }}{{ 2.5|round }}{{ -3|abs }}{{ 2.1|round(0,'ceil') }}",
    '{{ x is number }}{{ s is string }}{{ l is sequence }}{{ d is mapping }}{{ n is none }}{{ t is boolean }}{{ x is integer }}{{ f is float }}{{ l is iterable }}{{ zz is defined }}{{ x is odd }}{{ x is divisibleby 5 }}{{ x is divisibleby(2) }}{{ 1 is true }}{{ x is sameas x }}{{ x in [5] and x is in [5] }}',
    "{{ [1, 'a', none, true, 1.5, (1,), (1,2), {'k': 'v'}] }}",
    "{{ {'a': 1, 'b': [1]}['b'][0] }}{{ {1: 2}[1] }}{{ (1,2)[0] }}{{ [1,2] + [3] }}{{ [0] * 3 }}{{ 'ab' * 2 }}{{ (1,) + (2,) }}",
    "{{ [1,2] == [1,2] }}{{ {'a':1} == {'a':1.0} }}{{ 'a' < 'b' }}{{ 1 == 1.0 }}{{ 1 == true }}{{ 'a' != 'b' }}{{ (1,2) < (1,3) }}",
    '{% for a, b in [(1,2),(3,4)] %}{{ a }}{{ b }}{% endfor %}{% set a, b = 1, 2 %}{{ a }}{{ b }}',
    "{% for i in range(3) %}{{ loop.cycle('a','b') }}{% endfor %}{{ range(5)|list }}{{ range(1,10,3)|list }}{{ range(5,0,-2)|list }}",
    "{% for item in [{'v':1,'c':[{'v':2,'c':[]}]}] recursive %}{{ item.v }}{{ loop.depth }}{{ loop(item.c) }}{% endfor %}",
    '{% if n %}a{% elif x == 5 %}b{% else %}c{% endif %}',
    "{{ not x }}{{ not n and t }}{{ n or 'z' }}{{ x and 'y' }}{{ x or 1 }}{{ 1 if x == 5 and not n else 2 }}",
    "{{ 'a\\nb'|indent }}|{{ 'a\\n\\nb'|indent(2, true) }}|{{ 'a\\n\\nb'|indent('>', blank=true) }}",
    '{{ \'<a href="x">&</a>\'|e }}{{ \'x\'|center(5) }}|{{ \'hello world foo\'|truncate(8) }}|{{ \'hello world\'|truncate(8, true, \'..\', 0) }}',
    "{% for b in range(7)|batch(3) %}{{ b }}{% endfor %}{% for b in range(4)|batch(3, 'x') %}{{ b }}{% endfor %}",
    "{{ strftime_now('%Y-%m-%d %H:%M %d %b %Y %A') }}",
    '{{ bos_token }}{{ eos_token }}',
    '{% generation %}a{% set q = 1 %}{% endgeneration %}{{ q is defined }}',
    '{{ messages }}',
    "{{ x.y }}|{{ s.nope }}|{{ l.nope }}|{{ 'a'.upper().lower() }}",
    "{{ d.items is callable }}{{ d['items'] is callable }}",
    "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}{{ ns['a'] is defined }}",
    "{{ dict(a=1, b=2) }}{{ dict({'a': 1}, a=2) }}",
    '{{ (1, 2)|length }}{{ () }}{{ (1,) }}{{ 1, 2 }}',
    "{{ x|string ~ 'a' }}{{ n|string }}{{ l|string }}",
    '{{ 1_000 }}{{ 0x1f }}{{ 0b11 }}{{ 0o17 }}{{ 1.5e3 }}{{ 1e-7 }}{{ 5e-324 }}{{ 1.7976931348623157e308 }}',
    "{{ 'é'|tojson }}{{ '\\u2028\\x7f\\x01/</'|tojson }}{{ [1.0, 1e100, -0.0]|tojson }}{{ {1: 2, none: 3, true: 4}|tojson }}{{ (1,2)|tojson }}",
    '{{ [\'\\x7f\', \'é\', \'\\u200b\', \'\\u2028\', "\'", "\'\\""] }}',
    "{{ s|first }}{{ s|last }}{{ 'ß'|upper }}{{ 'ÀÉ'|lower }}",
    '{{ -x }}{{ +x }}{{ -f }}{{ - -x }}{{ x|abs }}{{ -x|abs }}',
    "{{ 'abc'[1:][0] }}{{ 'a.b'.split('.')[-1]|upper }}{{ ('a' ~ 'b')|upper }}{{ x + 1|string|int }}",
    '{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{{ x }}{% endmacro %}{{ a() }}',
    '{% for i in [1,2] %}{% for j in [3,4] %}{{ i }}{{ j }}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}',
    "{% if x is not none and x is not string %}y{% endif %}{{ x is not divisibleby 2 }}{{ 'a' if x is defined else 'b' }}",
    "{{ [1,2,3]|attr('x') is undefined }}{{ rows[0]|attr('n') is undefined }}",
    "{{ rows|map(attribute='zz', default=0)|list }}",
    "{{ d|items|list }}{{ zz|items|list }}{{ rows|length > 2 }}{{ zz|length }}{{ zz|list }}{{ zz|upper }}|{{ zz ~ 'a' }}|{{ zz == zz2 }}{{ zz|join }}",
    'x\r\ny\rz\n\n',
    "{{ 'a'\n ~ 'b' }}{%\n if x\n%}k{% endif %}",
    "{{ '}}' }}{{ '%}' }}{{ {'a':{'b':1}}.a.b }}{{ {'a':{}} }}",
    '{{ zz + 1 }}',
    '{{ zz.a }}',
    "{{ 'a' + 1 }}",
    "{{ 1 + 'a' }}",
    "{{ n + 'a' }}",
    '{{ zz() }}',
    '{{ x() }}',
    '{{ 1 // 0 }}',
    '{{ 1 / 0 }}',
    '{{ [1] < 2 }}',
    "{{ 'a' in n }}",
    "{{ 1 in 'a' }}",
    '{% for i in 5 %}{% endfor %}',
    '{% for a, b in [1] %}{% endfor %}',
    '{% for a, b in [(1,2,3)] %}{% endfor %}',
    '{{ x|nofilter }}',
    '{{ x is notest }}',
    "{{ raise_exception('boom') }}",
    '{{ zz|tojson }}',
    '{% if %}',
    '{% if x %}',
    '{{ x',
    "{{ 'abc }}",
    '{% foo %}',
    '{% endif %}',
    '{{ a b }}',
    '{% for %}{% endfor %}',
    '{% set x.y = 1 %}',
    '{{ range(100001) }}',
    '{% macro m(a) %}{% endmacro %}{{ m(1,2) }}',
    '{% macro m(a) %}{% endmacro %}{{ m(b=1) }}',
    '{{ x|length }}',
    '{{ l.append(1) }}',
    '{{ d.update({}) }}',
    "{{ d.pop('b') }}",
    "{{ ''.__class__.__mro__ }}",
    '{{ n|length }}',
    '{{ -s }}',
    "{{ 'a'.split('') }}",
    '{% break %}',
    "{{ 'x'.index('q') }}",
    "{{ '%d' % 'a' }}",
    "{{ '%s %s' % 'a' }}",
    '{{ (1 }}',
    '{{ 1) }}',
    '{{ [1}} ]',
    '{{ x.1a }}',
    "{{ 'a'.join([1]) }}",
    "{{ 'a' is }}",
    '{{ not }}',
    '{% set true = 1 %}',
    '{% for i in l %}{{ i }}',
    "{{ l['a'] + 1 }}",
]


def main():
    env = template_vectors.environment()
    os.makedirs(OUT, exist_ok=True)
    with open(os.path.join(OUT, "vars.json"), "w", encoding="utf-8") as f:
        json.dump(VARS, f, ensure_ascii=False)
        f.write("\n")
    with open(os.path.join(OUT, "constructs.jsonl"), "w", encoding="utf-8") as f:
        for source in SOURCES:
            row = {"source": source}
            try:
                row["text"] = env.from_string(source).render(**VARS)
            except Exception as x:                              # which kind of failure is Jinja's own affair
                row["error"] = str(x)
            f.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
